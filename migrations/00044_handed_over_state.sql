-- The fence has an SQLSTATE of its own: NG001 is that of a stale cache. See docs/promotion.md.

-- +goose Up
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION handed_over() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    successor text;
BEGIN
    SELECT coalesce(nullif(successor_url, ''), 'another service') INTO successor FROM handover;
    IF FOUND THEN
        RAISE EXCEPTION 'this service has been replaced by %: its database accepts nothing any more', successor
            USING ERRCODE = 'NG002', HINT = 'See the table handover, and docs/promotion.md.';
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION handed_over() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    successor text;
BEGIN
    SELECT coalesce(nullif(successor_url, ''), 'another service') INTO successor FROM handover;
    IF FOUND THEN
        RAISE EXCEPTION 'this service has been replaced by %: its database accepts nothing any more', successor
            USING ERRCODE = 'NG001', HINT = 'See the table handover, and docs/promotion.md.';
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
