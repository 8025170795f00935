-- What a sandbox records to certify the retries of partners. Always empty in a main database. Not derived from events.

-- +goose Up
CREATE TABLE sandbox_requests (
    request_id      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    integration_id  uuid        NOT NULL,
    operation       text        NOT NULL,
    idempotency_key text        NOT NULL,
    body_sha256     bytea       NOT NULL,
    fault           text,
    received_at     timestamptz NOT NULL,
    answered_at     timestamptz,
    status          integer
);
CREATE INDEX sandbox_requests_key ON sandbox_requests (integration_id, operation, idempotency_key);
CREATE INDEX sandbox_requests_time ON sandbox_requests (integration_id, request_id);

COMMENT ON TABLE sandbox_requests IS 'Commands that partners sent to a sandbox, one row for each request. Not derived from events.';
COMMENT ON COLUMN sandbox_requests.request_id IS 'Order of arrival.';
COMMENT ON COLUMN sandbox_requests.integration_id IS 'The partner.';
COMMENT ON COLUMN sandbox_requests.operation IS 'novels or posts.';
COMMENT ON COLUMN sandbox_requests.idempotency_key IS 'The Idempotency-Key.';
COMMENT ON COLUMN sandbox_requests.body_sha256 IS 'SHA-256 of the body as it came.';
COMMENT ON COLUMN sandbox_requests.fault IS 'The fault that was simulated (header Novelgate-Simulate); NULL for none.';
COMMENT ON COLUMN sandbox_requests.received_at IS 'When the request came, on the clock of the replica.';
COMMENT ON COLUMN sandbox_requests.answered_at IS 'When it was answered, or its connection was cut.';
COMMENT ON COLUMN sandbox_requests.status IS 'Status of the answer; NULL without an answer, and when the client left before it.';

-- +goose Down
DROP TABLE sandbox_requests;
