-- The event log: one append-only table, the truth that everything else is derived from.

-- +goose Up
CREATE TABLE events (
    transaction_id xid8        NOT NULL DEFAULT pg_current_xact_id(),
    position       integer     NOT NULL CHECK (position >= 0),
    stream_type    text        NOT NULL CHECK (stream_type <> ''),
    stream_id      uuid        NOT NULL,
    stream_version integer     NOT NULL CHECK (stream_version > 0),
    event_id       text        NOT NULL CHECK (event_id <> ''),
    event_source   text        NOT NULL CHECK (event_source <> ''),
    event_type     text        NOT NULL CHECK (event_type <> ''),
    data           json        NOT NULL,
    personal       json,
    salt           uuid,
    metadata       json        NOT NULL,
    recorded_at    timestamptz NOT NULL DEFAULT statement_timestamp(),
    CONSTRAINT events_pkey PRIMARY KEY (transaction_id, position),
    CONSTRAINT events_stream_key UNIQUE (stream_id, stream_version),
    -- event_id first: with the source first, `event_id = ANY (…)` would scan a whole source.
    CONSTRAINT events_id_key UNIQUE (event_id, event_source)
);

COMMENT ON TABLE events IS 'Append-only event log. Readers see rows below pg_snapshot_xmin(pg_current_snapshot()), ordered by (transaction_id, position).';
COMMENT ON COLUMN events.transaction_id IS 'Transaction that appended the event; first half of the log order.';
COMMENT ON COLUMN events.position IS 'Ordinal in decision order inside its transaction, from 0; second half of the log order.';
COMMENT ON COLUMN events.stream_type IS 'Kind of aggregate: novel, thread, post, integration.';
COMMENT ON COLUMN events.stream_id IS 'The aggregate.';
COMMENT ON COLUMN events.stream_version IS 'Version of the aggregate after this event: 1, 2, 3, … without gaps.';
COMMENT ON COLUMN events.event_id IS 'CloudEvents id: the Idempotency-Key of the command that caused the event.';
COMMENT ON COLUMN events.event_source IS 'CloudEvents source: integrations/<id>/novels, integrations/<id>/posts, …/posts/thread, …/posts/novel, staff/….';
COMMENT ON COLUMN events.event_type IS 'Literal, versioned name such as novel.created.v1.';
COMMENT ON COLUMN events.data IS 'What happened, as the exact bytes written; never changed.';
COMMENT ON COLUMN events.personal IS 'What identifies or was written by a person; may be erased.';
COMMENT ON COLUMN events.salt IS 'Random; keys the fingerprint in metadata, so that erasing it leaves nothing to guess by.';
COMMENT ON COLUMN events.metadata IS 'Actor, key, request, correlation, causation, batch, fingerprint, traceparent.';
COMMENT ON COLUMN events.recorded_at IS 'Start of the inserting statement, on the clock of the database.';

-- Tuples never change, so one early freeze is all that vacuum ever has to do here; the visibility map that
-- it keeps makes counting the lag of projections cheap.
ALTER TABLE events SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_freeze_min_age = 0);

-- +goose StatementBegin
CREATE FUNCTION events_are_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% on events is refused: the event log is append-only', TG_OP
        USING ERRCODE = 'restrict_violation',
              HINT = 'A stored event is never edited. Append a new event that corrects it.';
END
$$;
-- +goose StatementEnd

CREATE TRIGGER events_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON events
    FOR EACH STATEMENT EXECUTE FUNCTION events_are_append_only();
-- ALWAYS: session_replication_role = replica does not get around it.
ALTER TABLE events ENABLE ALWAYS TRIGGER events_append_only;

-- +goose Down
DROP TABLE events;
DROP FUNCTION events_are_append_only();
