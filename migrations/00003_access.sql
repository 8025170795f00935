-- Integrations, their keys and limits: inline projections of the integration streams.

-- +goose Up
CREATE TABLE integrations (
    integration_id   uuid        NOT NULL PRIMARY KEY,
    name             text        NOT NULL,
    enabled          boolean     NOT NULL,
    can_create_novels boolean    NOT NULL,
    can_post         boolean     NOT NULL,
    posts_per_minute integer     NOT NULL CHECK (posts_per_minute >= 0),
    novels_per_minute integer    NOT NULL CHECK (novels_per_minute >= 0),
    review           boolean     NOT NULL,
    stream_version   integer     NOT NULL CHECK (stream_version > 0),
    registered_at    timestamptz NOT NULL
);
-- Staff type names on the command line, so they are unique, ignoring case.
CREATE UNIQUE INDEX integrations_name_key ON integrations (lower(name));

COMMENT ON TABLE integrations IS 'Inline projection of integration streams: what an integration may do. Rebuildable from events.';

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

-- Not derived from events: shows staff which keys are in use.
CREATE TABLE api_key_use (
    key_id       uuid        NOT NULL PRIMARY KEY,
    last_used_at timestamptz NOT NULL
);

COMMENT ON TABLE api_key_use IS 'When each key was last used, to within a minute. Not part of the history.';

-- +goose Down
DROP TABLE api_key_use;
DROP TABLE api_keys;
DROP TABLE integrations;
