-- Saves the outcome of an attempt, if the worker still has the lease, the webhook is still where the worker began, and the log has the
-- change.
--
-- $1 webhook; $2 holder; $3 position where the worker began, NULL for a retry, which does not move it; $4 position after the change; $5
-- batch of its event; $6 its id; $7 its kind; $8 whether it was delivered; $9, $10, $11 status, error, milliseconds; $12 time to the
-- next attempt, NULL for none; $13 length of the lease; $14 pause before the next attempt at any change; $15 whether it was slow; $16
-- whether the endpoint is gone; $17 time since the first failure without a success after which the webhook is disabled
WITH w AS (
    UPDATE webhooks SET
        position = CASE WHEN $3::bigint IS NULL THEN position ELSE $4 END,
        failures = CASE WHEN $8 THEN 0 ELSE failures + 1 END,
        failing_since = CASE WHEN NOT $8 THEN coalesce(failing_since, now()) END,
        succeeded_at = CASE WHEN $8 THEN now() ELSE succeeded_at END,
        rest_until = now() + $14::interval, slow = $15, leased_until = now() + $13::interval,
        disabled = CASE WHEN $16 THEN 'gone' WHEN NOT $8 AND failing_since < now() - $17::interval THEN 'failing' END,
        disabled_at = CASE WHEN $16 OR NOT $8 AND failing_since < now() - $17::interval THEN now() END
    WHERE webhook_id = $1 AND holder = $2 AND ($3::bigint IS NULL OR position = $3) AND /* the log has it */
    RETURNING disabled, succeeded_at
)
INSERT INTO webhook_attempts AS a (webhook_id, log_index, message_id, kind, attempts, delivered, status, error, milliseconds, next_at)
SELECT $1, $4 - 1, $6, $7, 1, $8, $9, $10, $11, now() + $12::interval FROM w
ON CONFLICT (webhook_id, log_index) DO UPDATE SET
    attempts = CASE WHEN $3::bigint IS NULL THEN a.attempts + 1 ELSE 1 END, -- a new change may be replayed
    first_at = CASE WHEN $3::bigint IS NULL THEN a.first_at ELSE now() END,
    delivered = EXCLUDED.delivered, status = EXCLUDED.status, error = EXCLUDED.error,
    milliseconds = EXCLUDED.milliseconds, last_at = now(), next_at = EXCLUDED.next_at
RETURNING (SELECT disabled FROM w), (SELECT succeeded_at FROM w)
