-- Permits of the last minute, per integration and operation, for limits per minute that all replicas share.

-- +goose Up
CREATE TABLE rate_limits (
    integration_id uuid    NOT NULL,
    operation      text    NOT NULL CHECK (operation <> ''),
    second         bigint  NOT NULL,
    permits        integer NOT NULL CHECK (permits >= 0),
    CONSTRAINT rate_limits_pkey PRIMARY KEY (integration_id, operation, second)
);
-- The row of the current second is updated with every batch: leave room for new versions in its page.
ALTER TABLE rate_limits SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

COMMENT ON TABLE rate_limits IS 'Permits granted in the last minute. Not part of the history.';
COMMENT ON COLUMN rate_limits.operation IS 'What is limited: posts, novels, novelUpdates, lines.';
COMMENT ON COLUMN rate_limits.second IS 'When they were granted, in whole seconds since 1970 on the clock of the database.';
COMMENT ON COLUMN rate_limits.permits IS 'Number of permits.';

-- +goose Down
DROP TABLE rate_limits;
