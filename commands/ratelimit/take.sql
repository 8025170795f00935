-- Grants permits, all or none: it fails if one of the windows has too few. $1: integrations, $2: operations, $3: numbers, $4: limits. It
-- returns the permits of the last 61 seconds before the grant, as read.sql does.
WITH t AS MATERIALIZED (
    SELECT extract(epoch FROM clock_timestamp())::double precision AS now
), k AS MATERIALIZED (
    SELECT k.*, w.seconds, w.permits AS used, floor(t.now)::bigint AS second, t.now
    FROM t CROSS JOIN unnest($1::uuid[], $2::text[], $3::integer[], $4::integer[])
        WITH ORDINALITY AS k (integration_id, operation, permits, most, n)
    CROSS JOIN LATERAL (
        SELECT array_agg(r.second ORDER BY r.second) AS seconds, array_agg(r.permits ORDER BY r.second) AS permits
        FROM rate_limits AS r
        WHERE r.integration_id = k.integration_id AND r.operation = k.operation
            AND r.second BETWEEN floor(t.now)::bigint - 60 AND floor(t.now)::bigint + 60
    ) AS w
), gone AS (
    DELETE FROM rate_limits AS r USING k
    WHERE k.seconds[cardinality(k.seconds)] IS DISTINCT FROM k.second AND r.integration_id = k.integration_id AND r.operation = k.operation
        AND r.second NOT BETWEEN k.second - 61 AND k.second + 60
), granted AS (
    INSERT INTO rate_limits (integration_id, operation, second, permits)
    SELECT k.integration_id, k.operation, k.second, k.permits FROM k
    ON CONFLICT (integration_id, operation, second) DO UPDATE SET permits = rate_limits.permits + excluded.permits
)
SELECT k.n, k.now, k.seconds, k.used,
       CASE WHEN (SELECT coalesce(sum(u), 0) FROM unnest(k.used) AS u) + k.permits > k.most THEN refuse_memory() END
FROM k
