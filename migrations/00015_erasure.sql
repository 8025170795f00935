-- Erasing personal data in the events of one author: the only change that the log allows.

-- +goose Up
CREATE FUNCTION personal_digest(p_salt uuid, p_personal json) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_salt IS NULL THEN '\x02'::bytea || sha256(convert_to(p_personal::text, 'UTF8'))
                ELSE '\x01'::bytea || sha256(uuid_send(p_salt) || convert_to(p_personal::text, 'UTF8')) END
$$;
COMMENT ON FUNCTION personal_digest IS 'Digest of the personal part of an event in its ledger entry.';

-- +goose StatementBegin
CREATE FUNCTION events_lose_what_is_personal() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    author text := current_setting('novelgate.erasure', true);
BEGIN
    IF coalesce(author, '') = ''
       OR coalesce(OLD.integration_id::text, OLD.data ->> 'integrationId') || '/' || (OLD.personal ->> 'uuid') IS DISTINCT FROM author
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
                  HINT = 'Only erase_author_events changes a stored event: it replaces the personal part and the salt by their digest.';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION events_lose_what_is_personal IS 'Refuses every change of a stored event except the replacement of personal and salt by their digest, for the author whose events are being erased.';

DROP TRIGGER events_append_only ON events;
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
ALTER TABLE events ENABLE ALWAYS TRIGGER events_append_only;
ALTER TABLE events ENABLE ALWAYS TRIGGER events_no_update;
ALTER TABLE events ENABLE ALWAYS TRIGGER events_only_erasure;

-- +goose StatementBegin
CREATE FUNCTION erase_author_events(p_integration_id uuid, p_external_uuid text, p_streams uuid[]) RETURNS integer
LANGUAGE plpgsql SET jit = off AS $$
DECLARE
    author text := p_integration_id || '/' || p_external_uuid;
    erased integer;
BEGIN
    PERFORM set_config('novelgate.erasure', author, true);
    UPDATE events AS e SET personal = NULL, salt = NULL, personal_digest = personal_digest(e.salt, e.personal)
    WHERE e.stream_id = ANY (p_streams) AND e.personal IS NOT NULL
      AND coalesce(e.integration_id::text, e.data ->> 'integrationId') || '/' || (e.personal ->> 'uuid') = author
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
COMMENT ON FUNCTION erase_author_events IS 'Erases personal and salt of the events in these streams that belong to the author of an integration with an identifier, and returns their number. Call it with few streams at a time: every writing transaction delays the readers of the log.';

COMMENT ON COLUMN author_decisions.external_uuid IS 'The partner''s identifier of the user; NULL after erasure, until a new decision.';
COMMENT ON COLUMN author_decisions.blocked IS 'Whether comments of the author are refused. An erasure does not change it.';

-- +goose Down
DROP FUNCTION erase_author_events;
DROP TRIGGER events_only_erasure ON events;
DROP TRIGGER events_no_update ON events;
DROP TRIGGER events_append_only ON events;
CREATE TRIGGER events_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON events
    FOR EACH STATEMENT EXECUTE FUNCTION events_are_append_only();
ALTER TABLE events ENABLE ALWAYS TRIGGER events_append_only;
DROP FUNCTION events_lose_what_is_personal;
DROP FUNCTION personal_digest;
