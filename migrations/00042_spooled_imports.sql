-- The lines of an integration in the spool are limited.

-- +goose Up
ALTER TABLE imports ADD COLUMN spooled bigint NOT NULL DEFAULT 0;
UPDATE imports SET spooled = c.size
FROM (SELECT import_id, sum(octet_length(body)) AS size FROM import_chunks GROUP BY import_id) AS c
WHERE c.import_id = imports.import_id;
COMMENT ON COLUMN imports.spooled IS 'Bytes of its lines in the spool, until purged_at.';

-- +goose Down
ALTER TABLE imports DROP COLUMN spooled;
