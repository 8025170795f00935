-- Limit of an integration's updates of its novels per minute. Replicas before this version do not count updates.

-- +goose Up
ALTER TABLE integrations ADD COLUMN novel_updates_per_minute integer CHECK (novel_updates_per_minute >= 0);

COMMENT ON COLUMN integrations.novel_updates_per_minute IS 'Updates of its novels in any minute; NULL: any number.';

-- +goose Down
ALTER TABLE integrations DROP COLUMN novel_updates_per_minute;
