-- Checkpoints of the asynchronous projections, and settings of this database.

-- +goose Up
CREATE TABLE projections (
    name             text        NOT NULL PRIMARY KEY,
    generation       integer     NOT NULL CHECK (generation > 0),
    position         bigint      NOT NULL CHECK (position >= 0),
    state            text        NOT NULL CHECK (state IN ('running', 'failed')),
    error            text,
    failed_log_index bigint,
    updated_at       timestamptz NOT NULL,
    CONSTRAINT projections_failed_has_error CHECK ((state = 'failed') = (failed_log_index IS NOT NULL) AND (state = 'running' OR error IS NOT NULL))
);

COMMENT ON TABLE projections IS 'Checkpoint of each asynchronous projection.';
COMMENT ON COLUMN projections.position IS 'Number of applied events: those with a smaller log_index.';
COMMENT ON COLUMN projections.state IS 'running; failed: stopped at an event that it cannot apply, until an operator intervenes.';
COMMENT ON COLUMN projections.error IS 'Why the projection has stopped or, while running, why it does not continue.';
COMMENT ON COLUMN projections.failed_log_index IS 'The event that it cannot apply.';

CREATE TABLE settings (
    name  text NOT NULL PRIMARY KEY,
    value text NOT NULL
);

INSERT INTO settings (name, value) VALUES ('log_id', gen_random_uuid());

COMMENT ON TABLE settings IS 'Facts about this database, such as the hash of the fold table that title_lookup was built with.';

-- +goose Down
DROP TABLE settings;
DROP TABLE projections;
