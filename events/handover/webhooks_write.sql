-- Stores the webhooks of a handover. $1: the result of webhooks_read.sql.
WITH given AS (
    SELECT value AS w FROM jsonb_array_elements($1::jsonb)
), webhook AS (
    INSERT INTO webhooks
    SELECT r.* FROM given, LATERAL (
        SELECT s.transaction_id, (w ->> 'log_index')::bigint - s.first_log_index AS position FROM ledger_seals AS s
        WHERE s.first_log_index <= (w ->> 'log_index')::bigint ORDER BY s.first_log_index DESC LIMIT 1
    ) AS place, jsonb_populate_record(NULL::webhooks, w || jsonb_build_object(
        'transaction_id', place.transaction_id::text, 'position', place.position)) AS r
    UNION ALL
    SELECT r.* FROM given, jsonb_populate_record(NULL::webhooks, w || '{"transaction_id": "0", "position": 0}') AS r
    WHERE (w ->> 'log_index')::bigint < 0
    RETURNING webhook_id
)
INSERT INTO webhook_attempts
SELECT r.* FROM given, jsonb_array_elements(w -> 'attempts') AS a
JOIN LATERAL (
    SELECT s.transaction_id, (a ->> 'log_index')::bigint - s.first_log_index AS position FROM ledger_seals AS s
    WHERE s.first_log_index <= (a ->> 'log_index')::bigint ORDER BY s.first_log_index DESC LIMIT 1
) AS place ON true
CROSS JOIN LATERAL jsonb_populate_record(NULL::webhook_attempts, a || jsonb_build_object(
    'transaction_id', place.transaction_id::text, 'position', place.position)) AS r
