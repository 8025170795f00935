-- The change feed: an index of the log by partner. See docs/decisions/0021-change-feed.md.

-- +goose Up
CREATE TABLE changes (
    integration_id uuid        NOT NULL,
    log_index      bigint      NOT NULL,
    kind           text        NOT NULL,
    CONSTRAINT changes_pkey PRIMARY KEY (integration_id, log_index)
);

COMMENT ON TABLE changes IS 'Projection changes: the events that concern each partner. Their contents are read from the log. Rebuildable from events; holds no personal data.';
COMMENT ON COLUMN changes.integration_id IS 'The partner.';
COMMENT ON COLUMN changes.log_index IS 'The event.';
COMMENT ON COLUMN changes.kind IS 'Kind of change, such as novel.approved.';

-- +goose Down
DROP TABLE changes;
