-- A rebuild writes one chunk after another, like a catch-up of live tables, and stores its position in its own row. Replicas of the
-- previous version still use the table of ranges, so it stays.

-- +goose Up
COMMENT ON COLUMN projection_rebuilds.phase IS 'loading: old events, into tables without indexes. indexing: the indexes, and the events that needed them. following: the events since, until the switch. finished: the tables are the live ones.';
COMMENT ON COLUMN projection_rebuilds.transaction_id IS 'Last event in the new tables, with position; while indexing, the last applied one of projection_rebuild_rest.';
COMMENT ON COLUMN projection_rebuilds.target_transaction_id IS 'End of loading, with target_position.';
COMMENT ON COLUMN projection_rebuilds.events_done IS 'Applied events.';
COMMENT ON TABLE projection_rebuild_ranges IS 'Parts of the log that a rebuild has loaded; only for replicas of an earlier version.';

-- +goose Down
COMMENT ON COLUMN projection_rebuilds.phase IS 'loading: old events, in ranges. indexing: what was loaded. following: the events since, until the switch. finished: the tables are the live ones.';
COMMENT ON COLUMN projection_rebuilds.transaction_id IS 'Last event that the new tables hold while following, with position.';
COMMENT ON COLUMN projection_rebuilds.target_transaction_id IS 'Last event to be loaded in ranges, with target_position; later ones are followed.';
COMMENT ON COLUMN projection_rebuilds.events_done IS 'Events applied while following; projection_rebuild_ranges has those that were loaded.';
COMMENT ON TABLE projection_rebuild_ranges IS 'Parts of the log that a rebuild has loaded: what lies behind "from", up to and including "to".';
