-- Checkpoints of the asynchronous projections, and settings of this database.

-- +goose Up
CREATE TABLE projections (
    name                  text        NOT NULL PRIMARY KEY,
    generation            integer     NOT NULL CHECK (generation > 0),
    transaction_id        xid8        NOT NULL,
    position              integer     NOT NULL,
    state                 text        NOT NULL CHECK (state IN ('running', 'failed')),
    error                 text,
    failed_transaction_id xid8,
    failed_position       integer,
    updated_at            timestamptz NOT NULL,
    CONSTRAINT projections_failed_has_error CHECK ((state = 'failed') = (error IS NOT NULL AND failed_transaction_id IS NOT NULL AND failed_position IS NOT NULL))
);

COMMENT ON TABLE projections IS 'Checkpoint of each asynchronous projection: the last event it has applied, in log order.';
COMMENT ON COLUMN projections.error IS 'Error of the event at (failed_transaction_id, failed_position).';

CREATE TABLE settings (
    name  text NOT NULL PRIMARY KEY,
    value text NOT NULL
);

COMMENT ON TABLE settings IS 'Facts about this database, such as the hash of the fold table that title_lookup was built with.';

-- +goose Down
DROP TABLE settings;
DROP TABLE projections;
