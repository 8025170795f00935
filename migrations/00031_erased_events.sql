-- The relay deletes from its stream what was erased in the log, and has to find it without reading all of the log.

-- +goose NO TRANSACTION
-- +goose Up
-- Appends go on while the log is read for it. An attempt that was interrupted has left an invalid one behind.
SET client_min_messages = warning;
DROP INDEX CONCURRENTLY IF EXISTS events_erased;
RESET client_min_messages;
CREATE INDEX CONCURRENTLY events_erased ON events (transaction_id, position) WHERE personal_digest IS NOT NULL;
COMMENT ON INDEX events_erased IS 'Events whose personal part was erased. Appends add nothing to it.';

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS events_erased;
