-- The lines of an integration in the spool are limited. Those that are spooled now are not counted.

-- +goose Up
ALTER TABLE imports ADD COLUMN spooled bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN imports.spooled IS 'Bytes that its lines took in the spool until purged_at; too few if some were spooled before the column was added. Measured again at the end of the import.';

-- +goose Down
ALTER TABLE imports DROP COLUMN spooled;
