-- The change feed: the projection changes, an index of the log by partner. Webhooks send it to endpoints of partners; they are
-- configuration, not derived from events. Refused commands are operational data.

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
    next_attempt_at   timestamptz NOT NULL DEFAULT '-infinity',
    attempts          jsonb       NOT NULL DEFAULT '[]',
    holder            uuid,
    leased_until      timestamptz,
    CONSTRAINT webhooks_url_key UNIQUE (integration_id, url),
    CONSTRAINT webhooks_disabled CHECK ((disabled IS NULL) = (disabled_at IS NULL))
);

COMMENT ON TABLE webhooks IS 'Webhooks of partners: cursors over their changes that are pushed. Not derived from events; holds no personal data.';
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
COMMENT ON COLUMN webhooks.position IS 'Changes with a smaller log_index were accepted, or are not wanted.';
COMMENT ON COLUMN webhooks.failures IS 'Failed attempts since the last success.';
COMMENT ON COLUMN webhooks.failing_since IS 'First failure since the last success, or since the webhook was enabled; NULL without one.';
COMMENT ON COLUMN webhooks.next_attempt_at IS 'No change is sent before this time. Workers take the webhook that has waited longest.';
COMMENT ON COLUMN webhooks.attempts IS 'The last twenty attempts for the partner, newest first.';
COMMENT ON COLUMN webhooks.holder IS 'The visit of a worker that holds the lease; NULL for none.';
COMMENT ON COLUMN webhooks.leased_until IS 'Then any worker may take the webhook.';

CREATE TABLE refusals (
    integration_id  uuid        NOT NULL,
    refusal_id      uuid        NOT NULL,
    refused_at      timestamptz NOT NULL,
    request_id      text        NOT NULL,
    operation       text        NOT NULL,
    idempotency_key text,
    code            text        NOT NULL,
    field           text,
    detail          text        NOT NULL,
    CONSTRAINT refusals_pkey PRIMARY KEY (integration_id, refusal_id)
);

CREATE INDEX refusals_refused_at_idx ON refusals (refused_at);

COMMENT ON TABLE refusals IS 'The last refused commands of each integration. Not derived from events; holds no personal data.';
COMMENT ON COLUMN refusals.refusal_id IS 'UUID of version 7, in the order of the refusals.';
COMMENT ON COLUMN refusals.request_id IS 'Request id, with API keys shortened; of a line in bulk with / and its number.';
COMMENT ON COLUMN refusals.operation IS 'Operation; bulk for a request in bulk as a whole, and for a line that names no operation.';
COMMENT ON COLUMN refusals.idempotency_key IS 'Idempotency-Key, with API keys shortened; NULL without a valid one.';
COMMENT ON COLUMN refusals.code IS 'Code of the problem.';
COMMENT ON COLUMN refusals.field IS 'The first invalid field; NULL without one, and for a name that is none of the interface.';
COMMENT ON COLUMN refusals.detail IS 'Why the command was refused, without what the problem quotes of the request.';

-- +goose Down
DROP TABLE refusals, webhooks, changes;
