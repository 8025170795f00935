-- Saves the outcome of an attempt, if the worker still has the lease.
--
-- $1 webhook; $2 holder; $3, $4, $5 position of the change, and its recorded_at; $6 whether it is new, so that the position moves; $7
-- its id; $8 its kind; $9 whether it was delivered; $10, $11, $12 status, error, milliseconds; $13 time to the next attempt, NULL for
-- none; $14 length of the lease; $15 pause before the next attempt at any change; $16 whether it was slow; $17 whether the endpoint is
-- gone; $18 time since the first failure without a success after which the webhook is disabled
WITH w AS (
    UPDATE webhooks SET
        transaction_id = CASE WHEN $6 THEN $3 ELSE transaction_id END, position = CASE WHEN $6 THEN $4 ELSE position END,
        event_recorded_at = CASE WHEN $6 THEN $5 ELSE event_recorded_at END,
        failures = CASE WHEN $9 THEN 0 ELSE failures + 1 END,
        failing_since = CASE WHEN NOT $9 THEN coalesce(failing_since, now()) END,
        succeeded_at = CASE WHEN $9 THEN now() ELSE succeeded_at END,
        rest_until = now() + $15::interval, slow = $16, leased_until = now() + $14::interval,
        disabled = CASE WHEN $17 THEN 'gone' WHEN NOT $9 AND failing_since < now() - $18::interval THEN 'failing' END,
        disabled_at = CASE WHEN $17 OR NOT $9 AND failing_since < now() - $18::interval THEN now() END
    WHERE webhook_id = $1 AND holder = $2
    RETURNING disabled, succeeded_at
)
INSERT INTO webhook_attempts AS a (webhook_id, transaction_id, position, recorded_at, message_id, kind, attempts, delivered, status, error,
    milliseconds, next_at)
SELECT $1, $3, $4, $5, $7, $8, 1, $9, $10, $11, $12, now() + $13::interval FROM w
ON CONFLICT (webhook_id, transaction_id, position) DO UPDATE SET
    attempts = CASE WHEN $6 THEN 1 ELSE a.attempts + 1 END, first_at = CASE WHEN $6 THEN now() ELSE a.first_at END, -- $6: replayed
    delivered = EXCLUDED.delivered, status = EXCLUDED.status, error = EXCLUDED.error,
    milliseconds = EXCLUDED.milliseconds, last_at = now(), next_at = EXCLUDED.next_at
RETURNING (SELECT disabled FROM w), (SELECT succeeded_at FROM w)
