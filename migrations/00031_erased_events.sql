-- The relay deletes the messages of erased events from its stream. This index finds these events without reading the whole log.

-- +goose NO TRANSACTION
-- +goose Up
-- CONCURRENTLY, so that appends continue meanwhile. DROP removes the invalid index of an interrupted attempt.
SET client_min_messages = warning;
DROP INDEX CONCURRENTLY IF EXISTS events_erased;
RESET client_min_messages;
CREATE INDEX CONCURRENTLY events_erased ON events (log_index) WHERE personal_digest IS NOT NULL;
COMMENT ON INDEX events_erased IS 'Events whose personal part was erased. Appends add nothing to it.';

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS events_erased;
