-- A handover is for one mirror, also if several answer at its address one after the other. See docs/promotion.md.

-- +goose Up
ALTER TABLE handover ADD COLUMN successor_log uuid;
COMMENT ON COLUMN handover.successor_log IS 'Id of the log of the mirror that continues: log_identity there. NULL if unknown.';

-- A mirror has the promotions of its origin, so a promotion alone does not show that it was promoted.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION ledger_memory_moves_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_LEVEL = 'STATEMENT' THEN
        IF NOT EXISTS (SELECT FROM promotions) OR EXISTS (SELECT FROM mirror) THEN
            RAISE EXCEPTION 'an origin keeps its memory' USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN NULL;
    END IF;
    IF NEW.origin <> OLD.origin OR OLD.memory <> '00000000-0000-0000-0000-000000000000'
        OR NOT EXISTS (SELECT FROM promotions WHERE next_origin = NEW.origin) THEN
        RAISE EXCEPTION 'the origin % keeps its memory %', OLD.origin, OLD.memory USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION ledger_memory_moves_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_LEVEL = 'STATEMENT' THEN
        IF NOT EXISTS (SELECT FROM promotions) THEN
            RAISE EXCEPTION 'an origin keeps its memory' USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN NULL;
    END IF;
    IF NEW.origin <> OLD.origin OR OLD.memory <> '00000000-0000-0000-0000-000000000000'
        OR NOT EXISTS (SELECT FROM promotions WHERE next_origin = NEW.origin) THEN
        RAISE EXCEPTION 'the origin % keeps its memory %', OLD.origin, OLD.memory USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
ALTER TABLE handover DROP COLUMN successor_log;
