-- The change feed: an index of the log by partner. See docs/decisions/0021-change-feed.md.

-- +goose Up
CREATE TABLE changes (
    integration_id uuid        NOT NULL,
    transaction_id xid8        NOT NULL,
    position       integer     NOT NULL,
    recorded_at    timestamptz NOT NULL,
    kind           text        NOT NULL,
    CONSTRAINT changes_pkey PRIMARY KEY (integration_id, transaction_id, position)
);

COMMENT ON TABLE changes IS 'Projection changes: the events that concern each partner. Their contents are read from the log. Rebuildable from events; holds no personal data.';
COMMENT ON COLUMN changes.integration_id IS 'The partner.';
COMMENT ON COLUMN changes.transaction_id IS 'Position of the event in the log, first part.';
COMMENT ON COLUMN changes.position IS 'Position of the event in the log, second part.';
COMMENT ON COLUMN changes.recorded_at IS 'When the event was recorded. Shows whether the log still has this event at the position.';
COMMENT ON COLUMN changes.kind IS 'Kind of change, such as novel.approved.';

-- +goose Down
DROP TABLE changes;
