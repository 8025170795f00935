-- A checkpoint identifies its event, to detect a log that lacks it; and a projection stores why it does not continue.

-- +goose Up
ALTER TABLE projections
    ADD COLUMN event_recorded_at timestamptz,
    DROP CONSTRAINT projections_state_check,
    DROP CONSTRAINT projections_failed_has_error,
    ADD CONSTRAINT projections_state_check CHECK (state IN ('running', 'failed', 'diverged')),
    ADD CONSTRAINT projections_failed_has_error CHECK (
        (state = 'failed') = (failed_transaction_id IS NOT NULL AND failed_position IS NOT NULL) AND (state = 'running' OR error IS NOT NULL));

COMMENT ON COLUMN projections.event_recorded_at IS 'When the event at the checkpoint was recorded, according to the log when the checkpoint moved there. NULL at the beginning of the log, and if the log had no such event.';
COMMENT ON COLUMN projections.state IS 'running; failed: stopped at an event that it cannot apply, until an operator intervenes; diverged: the log lacks the event at the checkpoint, and the tables are rebuilt.';
COMMENT ON COLUMN projections.error IS 'Why the projection has stopped or, while running, why it does not continue.';
COMMENT ON COLUMN analytics.freshness.state IS 'running; failed: stopped at an event that it cannot apply, until an operator intervenes; diverged: the log lacks an event that it has applied, and its tables are rebuilt.';

UPDATE projections AS p SET event_recorded_at = e.recorded_at
FROM events AS e WHERE e.transaction_id = p.transaction_id AND e.position = p.position;

-- A trigger, so that it works for every writer, including replicas of the previous version.
-- +goose StatementBegin
CREATE FUNCTION projections_note_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.event_recorded_at := (SELECT e.recorded_at FROM events AS e WHERE e.transaction_id = NEW.transaction_id AND e.position = NEW.position);
    RETURN NEW;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION projections_note_event IS 'Stores when the event at a checkpoint was recorded.';
CREATE TRIGGER projections_note_event BEFORE INSERT OR UPDATE OF transaction_id, position ON projections
    FOR EACH ROW EXECUTE FUNCTION projections_note_event();

-- +goose Down
COMMENT ON COLUMN analytics.freshness.state IS 'running, or why not: failed means that it has stopped before an event that it cannot apply, until an operator intervenes.';
DROP TRIGGER projections_note_event ON projections;
DROP FUNCTION projections_note_event;
UPDATE projections SET state = 'running', error = NULL WHERE state <> 'failed';
ALTER TABLE projections
    DROP COLUMN event_recorded_at,
    DROP CONSTRAINT projections_state_check,
    DROP CONSTRAINT projections_failed_has_error,
    ADD CONSTRAINT projections_state_check CHECK (state IN ('running', 'failed')),
    ADD CONSTRAINT projections_failed_has_error CHECK ((state = 'failed') = (error IS NOT NULL AND failed_transaction_id IS NOT NULL AND failed_position IS NOT NULL));
