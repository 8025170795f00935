-- What happened to novels of late: a lane of the committer remembers titles and has to hear of what staff and others decide about them.

-- +goose NO TRANSACTION
-- +goose Up
-- Appends go on while the log is read for it. An attempt that was interrupted has left an invalid one behind.
SET client_min_messages = warning;
DROP INDEX CONCURRENTLY IF EXISTS events_novel_decisions;
RESET client_min_messages;
CREATE INDEX CONCURRENTLY events_novel_decisions ON events (transaction_id)
    WHERE stream_type = 'novel' AND event_type <> 'novel.updated.v1';
COMMENT ON INDEX events_novel_decisions IS 'Events of novels that may change what a title stands for, which an update does not, by their transaction.';

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION refuse_memory() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'what was decided from memory is to be decided again: it has changed since'
        USING ERRCODE = 'NG001';
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION refuse_memory IS 'Ends a transaction that was decided on what the service remembered, and that has changed since.';

-- +goose Down
DROP FUNCTION IF EXISTS refuse_memory();
DROP INDEX CONCURRENTLY IF EXISTS events_novel_decisions;
