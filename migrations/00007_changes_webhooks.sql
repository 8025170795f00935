-- The change feed: the projection changes, an index of the log by partner (docs/decisions/0021-change-feed.md). Webhooks send it to
-- endpoints of partners; they are configuration, not derived from events.

-- +goose Up
CREATE TABLE changes (
    integration_id uuid        NOT NULL,
    log_index      bigint      NOT NULL,
    kind           text        NOT NULL,
    CONSTRAINT changes_pkey PRIMARY KEY (integration_id, log_index)
);

COMMENT ON TABLE changes IS 'Projection changes: the events that concern each partner. Their contents are read from the log. Rebuildable from events; holds no personal data.';
COMMENT ON COLUMN changes.integration_id IS 'The partner.';
COMMENT ON COLUMN changes.log_index IS 'The event.';
COMMENT ON COLUMN changes.kind IS 'Kind of change, such as novel.approved.';

CREATE TABLE webhooks (
    webhook_id        uuid        NOT NULL PRIMARY KEY,
    integration_id    uuid        NOT NULL,
    url               text        NOT NULL,
    types             text[],
    secret            bytea       NOT NULL CHECK (length(secret) BETWEEN 24 AND 64),
    previous_secret   bytea,
    previous_until    timestamptz,
    created_at        timestamptz NOT NULL DEFAULT now(),
    disabled          text        CHECK (disabled IN ('partner', 'staff', 'gone', 'failing')),
    disabled_at       timestamptz,
    disabled_reason   text,
    disabled_by       text,
    position          bigint      NOT NULL CHECK (position >= 0),
    failures          integer     NOT NULL DEFAULT 0,
    failing_since     timestamptz,
    succeeded_at      timestamptz,
    rest_until        timestamptz NOT NULL DEFAULT '-infinity',
    slow              boolean     NOT NULL DEFAULT false,
    visited_at        timestamptz NOT NULL DEFAULT '-infinity',
    holder            uuid,
    leased_until      timestamptz,
    CONSTRAINT webhooks_url_key UNIQUE (integration_id, url),
    CONSTRAINT webhooks_disabled CHECK ((disabled IS NULL) = (disabled_at IS NULL))
);

COMMENT ON TABLE webhooks IS 'Webhooks of partners. Not derived from events; holds no personal data.';
COMMENT ON COLUMN webhooks.integration_id IS 'The partner whose changes are sent.';
COMMENT ON COLUMN webhooks.url IS 'Address of the endpoint.';
COMMENT ON COLUMN webhooks.types IS 'Kinds of change that are sent; NULL for all.';
COMMENT ON COLUMN webhooks.secret IS 'Key of the signatures, in plain text, because the service signs with it.';
COMMENT ON COLUMN webhooks.previous_secret IS 'Previous secret, which also signs until previous_until after a rotation.';
COMMENT ON COLUMN webhooks.previous_until IS 'End of the rotation.';
COMMENT ON COLUMN webhooks.disabled IS 'Why nothing is sent: switched off by the partner or staff; gone: the endpoint answered 410; failing: five days of failures. NULL while enabled.';
COMMENT ON COLUMN webhooks.disabled_at IS 'When it was disabled.';
COMMENT ON COLUMN webhooks.disabled_reason IS 'Reason given by staff.';
COMMENT ON COLUMN webhooks.disabled_by IS 'Actor who disabled it, such as staff:ada.';
COMMENT ON COLUMN webhooks.position IS 'Changes with a smaller log_index have been attempted.';
COMMENT ON COLUMN webhooks.failures IS 'Failed attempts since the last success.';
COMMENT ON COLUMN webhooks.failing_since IS 'First failure since the last success, or since the webhook was enabled; NULL without one.';
COMMENT ON COLUMN webhooks.succeeded_at IS 'When the endpoint last accepted a change; NULL if it has accepted none.';
COMMENT ON COLUMN webhooks.rest_until IS 'No change is sent before this time: the endpoint fails, or has asked for a pause (Retry-After).';
COMMENT ON COLUMN webhooks.slow IS 'The last attempt was slow, so the next ones count against the limit for slow endpoints.';
COMMENT ON COLUMN webhooks.visited_at IS 'Latest lease. Workers take the webhook that has waited longest.';
COMMENT ON COLUMN webhooks.holder IS 'The worker that holds the lease; NULL for none.';
COMMENT ON COLUMN webhooks.leased_until IS 'Then any worker may take the webhook.';

CREATE TABLE webhook_attempts (
    webhook_id     uuid        NOT NULL REFERENCES webhooks ON DELETE CASCADE,
    log_index      bigint      NOT NULL,
    message_id     text        NOT NULL,
    kind           text        NOT NULL,
    attempts       integer     NOT NULL,
    first_at       timestamptz NOT NULL DEFAULT now(),
    last_at        timestamptz NOT NULL DEFAULT now(),
    next_at        timestamptz,
    delivered      boolean     NOT NULL,
    status         integer,
    error          text,
    milliseconds   integer     NOT NULL,
    CONSTRAINT webhook_attempts_pkey PRIMARY KEY (webhook_id, log_index)
);
CREATE INDEX webhook_attempts_due ON webhook_attempts (webhook_id, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX webhook_attempts_old ON webhook_attempts (last_at) WHERE next_at IS NULL;

COMMENT ON TABLE webhook_attempts IS 'Changes that were sent to a webhook: those to retry, and all others of the last days.';
COMMENT ON COLUMN webhook_attempts.log_index IS 'The event of the change.';
COMMENT ON COLUMN webhook_attempts.message_id IS 'Id of the change in the feed.';
COMMENT ON COLUMN webhook_attempts.kind IS 'Kind of change.';
COMMENT ON COLUMN webhook_attempts.attempts IS 'Attempts so far.';
COMMENT ON COLUMN webhook_attempts.first_at IS 'First attempt.';
COMMENT ON COLUMN webhook_attempts.last_at IS 'Latest attempt.';
COMMENT ON COLUMN webhook_attempts.next_at IS 'Next attempt; NULL when there is none.';
COMMENT ON COLUMN webhook_attempts.delivered IS 'Whether the latest attempt was answered with 2xx.';
COMMENT ON COLUMN webhook_attempts.status IS 'Status of the latest answer; NULL without an answer.';
COMMENT ON COLUMN webhook_attempts.error IS 'Error of the latest attempt.';
COMMENT ON COLUMN webhook_attempts.milliseconds IS 'Duration of the latest attempt.';

-- +goose Down
DROP TABLE webhook_attempts, webhooks, changes;
