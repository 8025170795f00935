-- Permits of the last 61 seconds. $1: integrations, $2: operations. After the clock was set back, permits of the next minute count, and
-- later ones do not.
SELECT k.n, t.now, w.seconds, w.permits
FROM (SELECT extract(epoch FROM clock_timestamp())::double precision AS now) AS t
CROSS JOIN unnest($1::uuid[], $2::text[]) WITH ORDINALITY AS k (integration_id, operation, n)
CROSS JOIN LATERAL (
    SELECT array_agg(r.second ORDER BY r.second) AS seconds, array_agg(r.permits ORDER BY r.second) AS permits
    FROM rate_limits AS r
    WHERE r.integration_id = k.integration_id AND r.operation = k.operation
        AND r.second BETWEEN floor(t.now)::bigint - 60 AND floor(t.now)::bigint + 60
) AS w
