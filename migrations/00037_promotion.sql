-- Failover from an origin to a mirror. See docs/promotion.md.

-- +goose Up
CREATE TABLE handover (
    the_only      boolean     NOT NULL PRIMARY KEY DEFAULT true CHECK (the_only),
    promotion_id  uuid        NOT NULL,
    successor_url text        NOT NULL,
    replaced      boolean     NOT NULL,
    fenced_at     timestamptz NOT NULL,
    given_at      timestamptz
);

COMMENT ON TABLE handover IS 'One row in the database of a service that another one continues; none elsewhere. While it exists, nothing is appended.';
COMMENT ON COLUMN handover.promotion_id IS 'Id of the promotion of the successor.';
COMMENT ON COLUMN handover.successor_url IS 'Public URL of the service that continues; empty if unknown.';
COMMENT ON COLUMN handover.replaced IS 'false: staff handed over. true: the successor was promoted without this database, which may have events that the successor lacks.';
COMMENT ON COLUMN handover.fenced_at IS 'When appends were refused from.';
COMMENT ON COLUMN handover.given_at IS 'When the handover was complete: only the file with the key can undo it. NULL before, and if replaced.';

CREATE TABLE promotions (
    promotion_id uuid        NOT NULL PRIMARY KEY,
    origin       text        NOT NULL CHECK (origin <> ''),
    next_origin  text        NOT NULL CHECK (next_origin <> ''),
    tree_size    bigint      NOT NULL CHECK (tree_size >= 0),
    root_hash    bytea       NOT NULL CHECK (length(root_hash) = 32),
    known_size   bigint      NOT NULL CHECK (known_size >= tree_size),
    promoted_at  timestamptz NOT NULL
);

COMMENT ON TABLE promotions IS 'Promotions of mirrors that made this log the current one, also those before a handover to this database.';
COMMENT ON COLUMN promotions.promotion_id IS 'Random id.';
COMMENT ON COLUMN promotions.origin IS 'Origin of the ledger until then.';
COMMENT ON COLUMN promotions.next_origin IS 'Origin since then: the same after a handover, another one if the origin was lost.';
COMMENT ON COLUMN promotions.tree_size IS 'Events that the mirror had: the log index of the first event after the promotion.';
COMMENT ON COLUMN promotions.root_hash IS 'Merkle tree hash of those events.';
COMMENT ON COLUMN promotions.known_size IS 'Entries of the newest checkpoint of the former origin that was known: the log indexes from tree_size to this one were signed and lost.';
COMMENT ON COLUMN promotions.promoted_at IS 'When the mirror was promoted.';

CREATE TRIGGER ledger_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON promotions FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only();
ALTER TABLE promotions ENABLE ALWAYS TRIGGER ledger_append_only;

-- +goose StatementBegin
CREATE FUNCTION handed_over() RETURNS trigger LANGUAGE plpgsql AS $$
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
COMMENT ON FUNCTION handed_over IS 'Refuses writes to the database of a service that another one continues.';

-- Erasure is an update of events. webhooks: the successor sends the changes.
CREATE TRIGGER handed_over BEFORE INSERT OR UPDATE ON events FOR EACH STATEMENT EXECUTE FUNCTION handed_over();
CREATE TRIGGER handed_over BEFORE INSERT OR UPDATE ON imports FOR EACH STATEMENT EXECUTE FUNCTION handed_over();
CREATE TRIGGER handed_over BEFORE INSERT ON import_chunks FOR EACH STATEMENT EXECUTE FUNCTION handed_over();
CREATE TRIGGER handed_over BEFORE INSERT OR UPDATE OR DELETE ON webhooks FOR EACH STATEMENT EXECUTE FUNCTION handed_over();
-- A handover enables them; elsewhere they would cost every append.
ALTER TABLE events DISABLE TRIGGER handed_over;
ALTER TABLE imports DISABLE TRIGGER handed_over;
ALTER TABLE import_chunks DISABLE TRIGGER handed_over;
ALTER TABLE webhooks DISABLE TRIGGER handed_over;

-- A mirror binds its origin to no memory. After a handover the memory signs in this database.
-- +goose StatementBegin
CREATE FUNCTION ledger_memory_moves_once() RETURNS trigger LANGUAGE plpgsql AS $$
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
COMMENT ON FUNCTION ledger_memory_moves_once IS 'Refuses every change of a memory but the first one, of the origin of a mirror that was promoted.';
DROP TRIGGER ledger_append_only ON ledger_memories;
CREATE TRIGGER ledger_append_only BEFORE DELETE OR TRUNCATE ON ledger_memories FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only();
CREATE TRIGGER ledger_memory_stays BEFORE UPDATE ON ledger_memories FOR EACH STATEMENT EXECUTE FUNCTION ledger_memory_moves_once();
CREATE TRIGGER ledger_memory_moves_once BEFORE UPDATE ON ledger_memories FOR EACH ROW EXECUTE FUNCTION ledger_memory_moves_once();
ALTER TABLE ledger_memories ENABLE ALWAYS TRIGGER ledger_append_only;
ALTER TABLE ledger_memories ENABLE ALWAYS TRIGGER ledger_memory_stays;
ALTER TABLE ledger_memories ENABLE ALWAYS TRIGGER ledger_memory_moves_once;

ALTER TABLE mirror
    ADD COLUMN seen text,
    ADD COLUMN stopped text,
    ADD COLUMN stopped_at bigint;

COMMENT ON COLUMN mirror.seen IS 'Newest checkpoint of the origin: the signed note. NULL before the first one.';
COMMENT ON COLUMN mirror.stopped IS 'Why the mirror has stopped; NULL while it goes on.';
COMMENT ON COLUMN mirror.stopped_at IS 'Log index of the first event that does not belong to the history.';

-- +goose Down
ALTER TABLE mirror DROP COLUMN seen, DROP COLUMN stopped, DROP COLUMN stopped_at;
DROP TRIGGER ledger_memory_moves_once ON ledger_memories;
DROP TRIGGER ledger_memory_stays ON ledger_memories;
DROP TRIGGER ledger_append_only ON ledger_memories;
CREATE TRIGGER ledger_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_memories FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only();
ALTER TABLE ledger_memories ENABLE ALWAYS TRIGGER ledger_append_only;
DROP FUNCTION ledger_memory_moves_once;
DROP TRIGGER handed_over ON webhooks;
DROP TRIGGER handed_over ON import_chunks;
DROP TRIGGER handed_over ON imports;
DROP TRIGGER handed_over ON events;
DROP FUNCTION handed_over;
DROP TABLE promotions;
DROP TABLE handover;
