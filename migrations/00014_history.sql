-- The access log of the event history.

-- +goose Up
CREATE TABLE access_log (
    entry_id      bigint      NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    began_at      timestamptz NOT NULL DEFAULT statement_timestamp(),
    role          text        NOT NULL CHECK (role IN ('staff', 'auditor', 'cli')),
    name          text        NOT NULL,
    person_id     uuid,
    key_id        uuid,
    request_id    text        NOT NULL,
    route         text        NOT NULL,
    parameters    json        NOT NULL,
    rows_returned bigint      CHECK (rows_returned >= 0),
    ended_at      timestamptz,
    CONSTRAINT access_log_counted_at_its_end CHECK ((rows_returned IS NULL) = (ended_at IS NULL)),
    CONSTRAINT access_log_keys_belong_to_persons CHECK ((person_id IS NULL) = (role = 'cli') AND (key_id IS NULL) = (role = 'cli'))
);

COMMENT ON TABLE access_log IS 'Reads of the event history. An entry is written before the first byte of the answer; its count is added at the end. Otherwise entries are never changed or deleted. Not part of the history.';
COMMENT ON COLUMN access_log.began_at IS 'When the read began.';
COMMENT ON COLUMN access_log.role IS 'staff, auditor, or cli for the command line.';
COMMENT ON COLUMN access_log.name IS 'Name of the person; for the command line, the user of the operating system.';
COMMENT ON COLUMN access_log.person_id IS 'Stream of the person; NULL for the command line.';
COMMENT ON COLUMN access_log.key_id IS 'API key that was used; NULL for the command line.';
COMMENT ON COLUMN access_log.request_id IS 'X-Request-Id of the request.';
COMMENT ON COLUMN access_log.route IS 'Template of the path, or the command.';
COMMENT ON COLUMN access_log.parameters IS 'Parameters of the request: an object with their values, as sent.';
COMMENT ON COLUMN access_log.rows_returned IS 'Number of rows in the answer; NULL while it is being sent, and if unknown.';
COMMENT ON COLUMN access_log.ended_at IS 'When the answer ended; NULL while it is being sent, and if unknown.';

-- +goose StatementBegin
CREATE FUNCTION access_log_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% on access_log is refused: it is append-only', TG_OP
        USING ERRCODE = 'restrict_violation',
              HINT = 'Only the count of an entry is added, once, when its answer has ended.';
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION access_log_is_append_only IS 'Refuses changes of entries of the access log.';

CREATE TRIGGER access_log_append_only BEFORE DELETE OR TRUNCATE ON access_log
    FOR EACH STATEMENT EXECUTE FUNCTION access_log_is_append_only();
CREATE TRIGGER access_log_counted_once BEFORE UPDATE ON access_log
    FOR EACH ROW WHEN (
        OLD.ended_at IS NOT NULL
        OR (OLD.entry_id, OLD.began_at, OLD.role, OLD.name, OLD.person_id, OLD.key_id, OLD.request_id, OLD.route, OLD.parameters::text)
           IS DISTINCT FROM
           (NEW.entry_id, NEW.began_at, NEW.role, NEW.name, NEW.person_id, NEW.key_id, NEW.request_id, NEW.route, NEW.parameters::text)
    )
    EXECUTE FUNCTION access_log_is_append_only();
-- ALWAYS: also with session_replication_role = replica.
ALTER TABLE access_log ENABLE ALWAYS TRIGGER access_log_append_only;
ALTER TABLE access_log ENABLE ALWAYS TRIGGER access_log_counted_once;

-- +goose Down
DROP TABLE access_log;
DROP FUNCTION access_log_is_append_only();
