-- A completed import is announced once, so the search for the next one need not pass all earlier ones.

-- +goose Up
ALTER TABLE imports ADD COLUMN announced boolean NOT NULL DEFAULT false;
CREATE INDEX imports_unannounced ON imports (ended_at) WHERE state = 'completed' AND purged_at IS NULL AND NOT announced;
COMMENT ON COLUMN imports.announced IS 'Whether import.completed.v1 is on record.';
COMMENT ON COLUMN imports.worked_at IS 'End of the latest visit of a worker, also if no line got an outcome. Workers take the integration, and of its imports the one, that has waited longest.';

-- +goose Down
DROP INDEX imports_unannounced;
ALTER TABLE imports DROP COLUMN announced;
COMMENT ON COLUMN imports.worked_at IS 'Latest outcome. Workers take the import that has waited longest.';
