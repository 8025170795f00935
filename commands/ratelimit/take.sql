-- Grants permits, all or none: it fails if one of the windows has too few. $1: integrations, $2: operations, $3: numbers, $4: limits. It
-- returns the second of each grant, and the permits that counted before.
WITH granted AS (
    INSERT INTO rate_limits AS r (integration_id, operation, second, permits)
    SELECT k.integration_id, k.operation, t.second, k.permits
    FROM (SELECT floor(extract(epoch FROM clock_timestamp()))::bigint AS second) AS t
    CROSS JOIN unnest($1::uuid[], $2::text[], $3::integer[], $4::integer[]) AS k (integration_id, operation, permits, most)
    WHERE k.permits + (
        SELECT coalesce(sum(u.permits), 0) FROM rate_limits AS u
        WHERE u.integration_id = k.integration_id AND u.operation = k.operation AND u.second BETWEEN t.second - 60 AND t.second + 60) <= k.most
    ON CONFLICT (integration_id, operation, second) DO UPDATE SET permits = r.permits + excluded.permits
    RETURNING r.integration_id, r.operation, r.second, (
        SELECT coalesce(sum(u.permits), 0) FROM rate_limits AS u
        WHERE u.integration_id = r.integration_id AND u.operation = r.operation AND u.second BETWEEN r.second - 60 AND r.second + 60) AS used
)
SELECT g.integration_id, g.operation, g.second, g.used, CASE WHEN n.rows < cardinality($1) THEN refuse_memory() END
FROM (SELECT count(*) AS rows FROM granted) AS n LEFT JOIN granted AS g ON true
