-- Recent changes of novels: the lanes of the committer cache titles and must learn of changes by staff and other replicas.

-- +goose NO TRANSACTION
-- +goose Up
-- Appends continue while the index is built. An interrupted attempt leaves an invalid index.
SET client_min_messages = warning;
DROP INDEX CONCURRENTLY IF EXISTS events_novel_decisions;
RESET client_min_messages;
CREATE INDEX CONCURRENTLY events_novel_decisions ON events (log_index)
    WHERE stream_type = 'novel' AND event_type <> 'novel.updated.v1';
COMMENT ON INDEX events_novel_decisions IS 'Events of novels that may change the novel of a title, in log order; an update of a novel does not.';

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION refuse_memory() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'what was decided from memory is to be decided again: it has changed since'
        USING ERRCODE = 'NG001';
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION refuse_memory IS 'Fails a transaction that was decided on cached data that has changed since.';

-- +goose Down
DROP FUNCTION IF EXISTS refuse_memory();
DROP INDEX CONCURRENTLY IF EXISTS events_novel_decisions;
