-- Enabling a webhook resets failing_since, so it does not say whether the endpoint has accepted a change since then.

-- +goose Up
ALTER TABLE webhooks ADD COLUMN succeeded_at timestamptz;
COMMENT ON COLUMN webhooks.succeeded_at IS 'When the endpoint last accepted a change; NULL if it has accepted none, or none since the column was added.';
COMMENT ON COLUMN webhooks.failing_since IS 'First failure since the last success, or since the webhook was enabled; NULL without one.';

-- +goose Down
ALTER TABLE webhooks DROP COLUMN succeeded_at;
