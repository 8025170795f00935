-- The event log: one append-only table, from which everything else is derived. It allows one change, the erasure of personal data in the
-- events of an author or a comment. With it, the settings of this database.

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
-- Rows never change, so vacuum freezes them once, early.
) WITH (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_freeze_min_age = 0);

-- event_id first: with event_source first, `event_id = ANY (…)` would scan a whole source. Comments are left out, because
-- events_stream_key covers them, and an entry of 80 random bytes would be added for each.
CREATE UNIQUE INDEX events_id_key ON events (event_id, event_source, integration_id) NULLS NOT DISTINCT
    WHERE stream_type <> 'post' OR stream_version > 1;
COMMENT ON INDEX events_id_key IS 'One event for each key and source. For comments events_stream_key ensures this, because their stream_id derives from integration and key.';

-- For the committer, which decides comments on novels that it knows, as long as no such decision has come since.
CREATE INDEX events_decisions ON events (log_index)
    WHERE stream_type = 'novel' AND event_type NOT IN ('novel.created.v1', 'novel.updated.v1');
COMMENT ON INDEX events_decisions IS 'Decisions about novels, in log order.';

-- For the committer, which reads the latest edit of a comment while the log is locked. The comment may have any number of reports.
CREATE INDEX events_edits ON events (stream_id, stream_version) WHERE event_type LIKE 'post.edited.%';
COMMENT ON INDEX events_edits IS 'Edits of comments, by comment.';

-- For copies of the views, which forget erased authors and withdrawn comments.
CREATE INDEX events_erasures ON events (log_index) WHERE event_type IN ('author.erased.v1', 'post.withdrawn.v1');
COMMENT ON INDEX events_erasures IS 'Erasures of authors and withdrawals of comments, in log order.';

-- +goose StatementBegin
CREATE FUNCTION refuse_memory() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'what was decided from memory is to be decided again: it has changed since' USING ERRCODE = 'NG001';
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION refuse_memory IS 'Fails a transaction that was decided on what a process remembered and that does not hold any more.';

-- For the relay, which deletes the messages of erased events from its stream.
CREATE INDEX events_erased ON events (log_index) WHERE personal_digest IS NOT NULL;
COMMENT ON INDEX events_erased IS 'Events whose personal part was erased. Appends add nothing to it.';

COMMENT ON TABLE events IS 'Append-only event log, ordered by log_index.';
COMMENT ON COLUMN events.log_index IS 'Place in the log: 0, 1, 2, … without gaps, in the order of commits. Also the leaf index in the ledger.';
COMMENT ON COLUMN events.stream_type IS 'Kind of aggregate: novel, thread, post, author, integration, person, projection.';
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
COMMENT ON COLUMN events.recorded_at IS 'Start of the inserting statement, on the clock of the database; if that was set back, a microsecond after the previous append.';

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

-- +goose StatementBegin
CREATE FUNCTION events_are_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% on events is refused: the event log is append-only', TG_OP
        USING ERRCODE = 'restrict_violation',
              HINT = 'A stored event is never edited. Append a new event that corrects it.';
END
$$;
-- +goose StatementEnd

-- STABLE, because a conversion of json to text counts as that: otherwise it would not be inlined, and an erasure take twice as long.
CREATE FUNCTION personal_digest(p_salt uuid, p_personal json) RETURNS bytea LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN p_salt IS NULL THEN '\x02'::bytea || sha256(convert_to(p_personal::text, 'UTF8'))
                ELSE '\x01'::bytea || sha256(uuid_send(p_salt) || convert_to(p_personal::text, 'UTF8')) END
$$;
COMMENT ON FUNCTION personal_digest IS 'Digest of the personal part of an event in its ledger entry.';

CREATE FUNCTION subject_of(e events) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce(e.personal ->> 'integrationId', e.integration_id::text, e.data ->> 'integrationId') || '/' || (e.personal ->> 'uuid')
$$;
COMMENT ON FUNCTION subject_of IS 'The author whose data an event has: integration and the partner''s identifier; NULL without personal data.';

-- +goose StatementBegin
CREATE FUNCTION events_lose_what_is_personal() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    subject text := current_setting('novelgate.erasure', true);
BEGIN
    IF coalesce(subject, '') = ''
       -- Nothing follows a withdrawal in its stream. A search in the whole stream would read all reports of a comment for each of them.
       OR (CASE WHEN subject = 'withdrawals'
               THEN (SELECT w.event_type FROM events AS w WHERE w.stream_id = OLD.stream_id ORDER BY w.stream_version DESC LIMIT 1)
                   NOT LIKE 'post.withdrawn.%'
               ELSE subject_of(OLD) IS DISTINCT FROM subject END)
       OR NEW.personal IS NOT NULL OR NEW.salt IS NOT NULL
       OR NEW.personal_digest IS DISTINCT FROM personal_digest(OLD.salt, OLD.personal)
       OR (OLD.log_index, OLD.stream_version, OLD.recorded_at, OLD.stream_id, OLD.batch_id, OLD.integration_id, OLD.key_id,
           OLD.fingerprint, OLD.stream_type, OLD.event_type, OLD.event_source, OLD.event_id, OLD.request_id,
           OLD.actor, OLD.correlation, OLD.causation, OLD.traceparent, OLD.data::text)
          IS DISTINCT FROM
          (NEW.log_index, NEW.stream_version, NEW.recorded_at, NEW.stream_id, NEW.batch_id, NEW.integration_id, NEW.key_id,
           NEW.fingerprint, NEW.stream_type, NEW.event_type, NEW.event_source, NEW.event_id, NEW.request_id,
           NEW.actor, NEW.correlation, NEW.causation, NEW.traceparent, NEW.data::text)
    THEN
        RAISE EXCEPTION 'UPDATE on events is refused: the event log is append-only'
            USING ERRCODE = 'restrict_violation',
                  HINT = 'Only erase_author_events and erase_post_events change a stored event: it replaces the personal part and the salt by their digest.';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION events_lose_what_is_personal IS 'Refuses every change of a stored event except the replacement of personal and salt by their digest, for the author or the withdrawn comment that is being erased.';

CREATE TRIGGER events_append_only BEFORE DELETE OR TRUNCATE ON events
    FOR EACH STATEMENT EXECUTE FUNCTION events_are_append_only();
-- Without the marker an update is refused, even if it matches no row, …
CREATE TRIGGER events_no_update BEFORE UPDATE ON events
    FOR EACH STATEMENT WHEN (coalesce(current_setting('novelgate.erasure', true), '') = '')
    EXECUTE FUNCTION events_are_append_only();
-- … and the marker alone allows no other change.
CREATE TRIGGER events_only_erasure BEFORE UPDATE ON events
    FOR EACH ROW EXECUTE FUNCTION events_lose_what_is_personal();
-- ALWAYS: also with session_replication_role = replica.
ALTER TABLE events ENABLE ALWAYS TRIGGER events_append_only, ENABLE ALWAYS TRIGGER events_no_update,
    ENABLE ALWAYS TRIGGER events_only_erasure;

-- Both functions lock events in the order of their streams, so that the erasures of an author and of withdrawn comments do not deadlock.
-- With these settings, the plan is an index probe for each stream in turn.
-- +goose StatementBegin
CREATE FUNCTION erase_author_events(p_integration_id uuid, p_external_uuid text, p_streams uuid[]) RETURNS integer
LANGUAGE plpgsql SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    author text := p_integration_id || '/' || p_external_uuid;
    erased integer;
BEGIN
    PERFORM set_config('novelgate.erasure', author, true);
    UPDATE events AS e SET personal = NULL, salt = NULL, personal_digest = personal_digest(e.salt, e.personal)
    FROM (SELECT DISTINCT s AS id FROM unnest(p_streams) AS s ORDER BY s) AS streams
    WHERE e.stream_id = streams.id AND e.personal IS NOT NULL
      AND subject_of(e) = author
      -- Decisions after the erasure are kept.
      AND (e.stream_type <> 'author' OR EXISTS (
          SELECT FROM events AS later
          WHERE later.stream_id = e.stream_id AND later.stream_version > e.stream_version AND later.event_type LIKE 'author.erased.%'));
    GET DIAGNOSTICS erased = ROW_COUNT;
    PERFORM set_config('novelgate.erasure', '', true);
    RETURN erased;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION erase_author_events IS 'Erases personal and salt of the events in these streams that belong to the author of an integration with an identifier, and returns their number. Call it with few streams at a time.';

-- +goose StatementBegin
CREATE FUNCTION erase_post_events(p_posts uuid[]) RETURNS void
LANGUAGE plpgsql SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    PERFORM set_config('novelgate.erasure', 'withdrawals', true);
    UPDATE events AS e SET personal = NULL, salt = NULL, personal_digest = personal_digest(e.salt, e.personal)
    FROM (SELECT DISTINCT p AS id FROM unnest(p_posts) AS p ORDER BY p) AS posts
    WHERE e.stream_id = posts.id AND e.personal IS NOT NULL;
    PERFORM set_config('novelgate.erasure', '', true);
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION erase_post_events IS 'Erases personal and salt of all events of withdrawn comments.';

CREATE TABLE settings (
    name  text NOT NULL PRIMARY KEY,
    value text NOT NULL
);

-- The author_secret has 244 random bits.
INSERT INTO settings (name, value) VALUES ('log_id', gen_random_uuid()), ('inline_generation', '0'),
    ('author_secret', gen_random_uuid()::text || gen_random_uuid());

COMMENT ON TABLE settings IS 'Facts about this database, such as the hash of the fold table that title_lookup was built with.';

-- These two are simple enough to be inlined, because projections call them for each comment.
CREATE FUNCTION author_key(p_secret text, p_integration_id uuid) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT encode(sha256(convert_to(p_secret || p_integration_id::text, 'UTF8')), 'hex')
$$;
COMMENT ON FUNCTION author_key IS 'The key of the identifiers of an integration''s authors, from the setting author_secret. Only this integration is told.';

CREATE FUNCTION author_id(p_author_key text, p_external_uuid text) RETURNS uuid LANGUAGE sql STABLE AS $$
    SELECT encode(set_byte(set_byte(substring(sha256(convert_to(p_author_key || p_external_uuid, 'UTF8')) FOR 16), 6, 128), 8, 160),
        'hex')::uuid
$$;
COMMENT ON FUNCTION author_id IS 'The identifier of an author: UUID version 8 of SHA-256. Without the key, nobody can test guesses of erased identifiers against it.';

-- +goose Down
DROP FUNCTION author_id, author_key;
DROP TABLE settings;
DROP FUNCTION erase_author_events, erase_post_events, subject_of;
DROP VIEW event_log;
DROP TABLE events;
DROP FUNCTION refuse_memory, events_lose_what_is_personal, personal_digest, events_are_append_only;
