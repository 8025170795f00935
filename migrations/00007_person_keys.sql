-- Keys of staff and auditors: inline projection of the person streams.

-- +goose Up
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

-- +goose Down
DROP TABLE person_keys;
