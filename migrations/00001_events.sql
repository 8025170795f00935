-- The event log: one append-only table, from which everything else is derived.

-- +goose Up
CREATE TABLE events (
    -- Columns of fixed width first, to avoid padding.
    log_index      bigint      NOT NULL PRIMARY KEY CHECK (log_index >= 0),
    recorded_at    timestamptz NOT NULL DEFAULT statement_timestamp(),
    stream_version integer     NOT NULL CHECK (stream_version > 0),
    stream_id      uuid        NOT NULL,
    batch_id       uuid        NOT NULL,
    integration_id uuid,
    key_id         uuid,
    fingerprint    uuid,
    salt           uuid,
    stream_type    text        NOT NULL CHECK (stream_type <> ''),
    event_type     text        NOT NULL CHECK (event_type <> ''),
    event_source   text        NOT NULL CHECK (event_source <> ''),
    event_id       text        NOT NULL CHECK (event_id <> ''),
    request_id     text,
    actor          text,
    correlation    text,
    causation      text,
    traceparent    text,
    data           json        NOT NULL,
    personal       json,
    personal_digest bytea,
    CONSTRAINT events_stream_key UNIQUE (stream_id, stream_version),
    CONSTRAINT events_digest_of_erased CHECK (personal_digest IS NULL
        OR personal IS NULL AND salt IS NULL AND length(personal_digest) = 33),
    -- With it, events_stream_key refuses a second comment with the same key. Without an integration, the comparison would be NULL and
    -- pass.
    CONSTRAINT events_post_id_is_of_key CHECK (stream_type <> 'post' OR stream_version > 1 OR integration_id IS NOT NULL
        AND substring(uuid_send(stream_id) FOR 6) = substring(sha256(uuid_send(integration_id) || convert_to(event_id, 'UTF8')) FOR 6))
);

-- event_id first: with event_source first, `event_id = ANY (…)` would scan a whole source. Comments are left out, because
-- events_stream_key covers them, and an entry of 80 random bytes would be added for each.
CREATE UNIQUE INDEX events_id_key ON events (event_id, event_source, integration_id) NULLS NOT DISTINCT
    WHERE stream_type <> 'post' OR stream_version > 1;
COMMENT ON INDEX events_id_key IS 'One event for each key and source. For comments events_stream_key ensures this, because their stream_id derives from integration and key.';

COMMENT ON TABLE events IS 'Append-only event log, ordered by log_index.';
COMMENT ON COLUMN events.log_index IS 'Place in the log: 0, 1, 2, … without gaps, in the order of commits. Also the leaf index in the ledger.';
COMMENT ON COLUMN events.stream_type IS 'Kind of aggregate: novel, thread, post, integration.';
COMMENT ON COLUMN events.stream_id IS 'Identifier of the aggregate.';
COMMENT ON COLUMN events.stream_version IS 'Version of the aggregate after this event: 1, 2, 3, … without gaps.';
COMMENT ON COLUMN events.event_id IS 'CloudEvents id: the Idempotency-Key of the command that caused the event.';
COMMENT ON COLUMN events.integration_id IS 'Integration whose command caused the event; NULL when it was staff.';
COMMENT ON COLUMN events.event_source IS 'CloudEvents source. With an integration_id, without the prefix integrations/<integration_id>/: novels, posts, posts/thread, posts/novel. Otherwise staff/….';
COMMENT ON COLUMN events.event_type IS 'Literal, versioned name such as novel.created.v1.';
COMMENT ON COLUMN events.data IS 'Contents of the event, as the exact bytes written; never changed.';
COMMENT ON COLUMN events.personal IS 'Personal data; may be erased.';
COMMENT ON COLUMN events.personal_digest IS 'Of an erased event: the digest of its personal data in the ledger, a byte 1 and SHA-256 of salt and personal, or a byte 2 and SHA-256 of personal if there was no salt.';
COMMENT ON COLUMN events.salt IS 'Random bytes in the fingerprint. Without them, after erasure, nobody can test guesses against the fingerprint.';
COMMENT ON COLUMN events.fingerprint IS '128 bits of SHA-256 over salt and normalised command, as a uuid, the most compact type.';
COMMENT ON COLUMN events.batch_id IS 'Random id of the append. An event with a log index and a batch id is in two copies of a log only if both have the same events before it.';
COMMENT ON COLUMN events.key_id IS 'API key of the integration.';
COMMENT ON COLUMN events.request_id IS 'X-Request-Id of the command.';
COMMENT ON COLUMN events.actor IS 'Actor, such as staff:ada; NULL for the integration itself.';
COMMENT ON COLUMN events.correlation IS 'Common to all events of one operation; NULL when it is the request_id.';
COMMENT ON COLUMN events.causation IS 'On side effects: source of the command''s own event.';
COMMENT ON COLUMN events.traceparent IS 'W3C trace context of the request.';
COMMENT ON COLUMN events.recorded_at IS 'Start of the inserting statement, on the clock of the database.';

CREATE VIEW event_log AS
SELECT log_index, stream_type, stream_id, stream_version, event_id,
       CASE WHEN integration_id IS NULL THEN event_source ELSE 'integrations/' || integration_id || '/' || event_source END AS event_source,
       event_type, data, personal, salt,
       ('{' || concat_ws(',',
           '"actor":' || to_json(coalesce(actor, 'integration:' || integration_id, '')), '"keyId":"' || key_id || '"',
           '"requestId":' || to_json(request_id), '"correlation":' || to_json(correlation), '"causation":' || to_json(causation),
           '"batch":"' || batch_id || '"',
           '"fingerprint":"' || rtrim(translate(encode(uuid_send(fingerprint), 'base64'), '+/', '-_'), '=') || '"',
           '"traceparent":' || to_json(traceparent)) || '}')::json AS metadata,
       recorded_at
FROM events;

COMMENT ON VIEW event_log IS 'The event log for human readers: with complete sources, and the metadata as one JSON object.';

-- Rows never change, so vacuum freezes them once, early.
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
-- ALWAYS: also with session_replication_role = replica.
ALTER TABLE events ENABLE ALWAYS TRIGGER events_append_only;

-- +goose Down
DROP VIEW event_log;
DROP TABLE events;
DROP FUNCTION events_are_append_only();
