-- Mirrors: databases whose log is that of another service. See docs/mirrors.md.

-- +goose Up
CREATE TABLE mirror (
    the_only   boolean     NOT NULL PRIMARY KEY DEFAULT true CHECK (the_only),
    origin_url text        NOT NULL CHECK (origin_url <> ''),
    tree_size  bigint      NOT NULL CHECK (tree_size >= 0),
    edge       bytea       NOT NULL CHECK (length(edge) % 32 = 0),
    started_at timestamptz NOT NULL,
    applied_at timestamptz NOT NULL
);

COMMENT ON TABLE mirror IS 'Checkpoint of a mirror, one row; none in the database of a service of its own. The row is locked and moved in the transaction that appends.';
COMMENT ON COLUMN mirror.origin_url IS 'Public URL of the service that is mirrored.';
COMMENT ON COLUMN mirror.tree_size IS 'Number of events that were verified and appended: the next log index.';
COMMENT ON COLUMN mirror.edge IS 'Right edge of the Merkle tree over them: the roots of its complete subtrees, the largest first.';
COMMENT ON COLUMN mirror.started_at IS 'When the database became a mirror.';
COMMENT ON COLUMN mirror.applied_at IS 'When the last events were appended.';

-- +goose StatementBegin
CREATE FUNCTION events_are_mirrored() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM mirror) THEN
        RAISE EXCEPTION 'this database is a mirror: only events of its origin are appended'
            USING ERRCODE = 'restrict_violation', HINT = 'Send commands to the origin: see the table mirror.';
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION events_are_mirrored IS 'Refuses an append to the log of a mirror that is not of its origin.';
CREATE TRIGGER events_only_mirrored BEFORE INSERT ON events
    FOR EACH STATEMENT WHEN (coalesce(current_setting('novelgate.mirror', true), '') <> 'on')
    EXECUTE FUNCTION events_are_mirrored();
-- The first start of a mirror enables it; elsewhere it would cost every append.
ALTER TABLE events DISABLE TRIGGER events_only_mirrored;

-- +goose Down
DROP TRIGGER events_only_mirrored ON events;
DROP FUNCTION events_are_mirrored;
DROP TABLE mirror;
