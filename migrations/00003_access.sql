-- Who may do what: integrations and keys (inline projections of the streams of integrations and persons), limits per minute, and the
-- access log of the event history.

-- +goose Up
CREATE TABLE integrations (
    integration_id           uuid        NOT NULL PRIMARY KEY,
    name                     text        NOT NULL,
    folded_name              text        NOT NULL COLLATE "C" CONSTRAINT integrations_name_key UNIQUE,
    enabled                  boolean     NOT NULL,
    can_create_novels        boolean     NOT NULL,
    can_post                 boolean     NOT NULL,
    can_import               boolean     NOT NULL,
    posts_per_minute         integer     NOT NULL CHECK (posts_per_minute >= 0),
    novels_per_minute        integer     NOT NULL CHECK (novels_per_minute >= 0),
    lines_per_minute         integer     NOT NULL CHECK (lines_per_minute >= 0),
    review                   boolean     NOT NULL,
    registered_at            timestamptz NOT NULL
);

COMMENT ON TABLE integrations IS 'Inline projection of integration streams: what an integration may do. Rebuildable from events.';
COMMENT ON COLUMN integrations.folded_name IS 'The name, folded like a title: staff type names on the command line, so they are unique, ignoring case.';
COMMENT ON COLUMN integrations.can_import IS 'Whether it may import lines in bulk.';
COMMENT ON COLUMN integrations.lines_per_minute IS 'Lines of bulk imports in any minute.';

CREATE TABLE api_keys (
    key_id         uuid        NOT NULL PRIMARY KEY,
    key_hash       bytea       NOT NULL UNIQUE CHECK (length(key_hash) = 32),
    prefix         text        NOT NULL,
    integration_id uuid        NOT NULL,
    issued_at      timestamptz NOT NULL,
    expires_at     timestamptz,
    revoked_at     timestamptz
);
CREATE INDEX api_keys_integration ON api_keys (integration_id);

COMMENT ON TABLE api_keys IS 'Inline projection: API keys by SHA-256. The key itself is shown once and stored nowhere.';
COMMENT ON COLUMN api_keys.prefix IS 'First characters of the key, enough to recognise it.';

CREATE TABLE person_keys (
    key_id     uuid        NOT NULL PRIMARY KEY,
    key_hash   bytea       NOT NULL UNIQUE CHECK (length(key_hash) = 32),
    prefix     text        NOT NULL,
    person_id  uuid        NOT NULL,
    role       text        NOT NULL CHECK (role IN ('staff', 'auditor')),
    name       text        NOT NULL,
    issued_at  timestamptz NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz
);

COMMENT ON TABLE person_keys IS 'Inline projection: API keys of staff and auditors by SHA-256. Rebuildable from events. The key itself is shown once and stored nowhere; api_key_use has when it was last used.';
COMMENT ON COLUMN person_keys.prefix IS 'First characters of the key, enough to recognise it.';
COMMENT ON COLUMN person_keys.person_id IS 'Stream of the person; derived from role and name.';
COMMENT ON COLUMN person_keys.role IS 'Role of the key: staff or auditor.';
COMMENT ON COLUMN person_keys.name IS 'Name of the owner, as spelled when the key was issued.';

-- Not derived from events: shows staff which keys are in use.
CREATE TABLE api_key_use (
    key_id       uuid        NOT NULL PRIMARY KEY,
    last_used_at timestamptz NOT NULL
);

COMMENT ON TABLE api_key_use IS 'When each key was last used, to within a minute. Not part of the history.';

-- For limits per minute that all replicas share. Rows are only inserted, and deleted after a minute: an old snapshot slows nobody.
CREATE TABLE rate_limits (
    integration_id uuid        NOT NULL,
    operation      text        NOT NULL CHECK (operation <> ''),
    granted_at     timestamptz NOT NULL,
    permits        integer     NOT NULL CHECK (permits > 0),
    total          bigint      NOT NULL CHECK (total >= permits),
    CONSTRAINT rate_limits_pkey PRIMARY KEY (integration_id, operation, granted_at)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

COMMENT ON TABLE rate_limits IS 'Permits granted in the last minute. Not part of the history.';
COMMENT ON COLUMN rate_limits.operation IS 'What is limited: posts, novels, lines.';
COMMENT ON COLUMN rate_limits.granted_at IS 'When they were granted, on the clock of the database.';
COMMENT ON COLUMN rate_limits.permits IS 'Number of permits.';
COMMENT ON COLUMN rate_limits.total IS 'Running total of the permits of the integration and operation, with these.';

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
COMMENT ON COLUMN access_log.parameters IS 'Parameters of the request: an object with their values, as sent, API keys shortened.';
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
ALTER TABLE access_log ENABLE ALWAYS TRIGGER access_log_append_only, ENABLE ALWAYS TRIGGER access_log_counted_once;

-- +goose Down
DROP TABLE access_log;
DROP FUNCTION access_log_is_append_only;
DROP TABLE rate_limits, api_key_use, person_keys, api_keys, integrations;
