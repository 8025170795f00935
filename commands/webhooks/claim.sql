-- Leases the webhook that has waited longest among those with changes to send. $1: holder; $2: length of the lease; $3: whether to
-- lease one whose endpoint was slow at the last attempt.
WITH due AS (
    SELECT w.webhook_id FROM webhooks AS w JOIN integrations AS g ON g.integration_id = w.integration_id AND g.enabled
    WHERE w.disabled IS NULL AND w.slow = $3 AND w.rest_until <= now() AND (w.holder IS NULL OR w.leased_until < now())
      AND (EXISTS (SELECT FROM webhook_attempts AS a WHERE a.webhook_id = w.webhook_id AND a.next_at <= now())
           OR EXISTS (SELECT FROM changes AS c WHERE c.integration_id = w.integration_id AND c.log_index >= w.position))
    ORDER BY w.visited_at, w.webhook_id LIMIT 1 FOR UPDATE OF w SKIP LOCKED
)
UPDATE webhooks AS w SET holder = $1, leased_until = now() + $2::interval, visited_at = now()
FROM due WHERE w.webhook_id = due.webhook_id
RETURNING w.webhook_id, w.integration_id, w.url, w.types, w.secret, CASE WHEN w.previous_until > now() THEN w.previous_secret END,
    w.position, w.failures, w.succeeded_at
