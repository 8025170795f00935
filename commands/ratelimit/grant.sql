-- Grants permits, all or none: it fails if one of the windows has too few. $1: integrations, $2: operations, $3: limits, $4: numbers. It
-- returns the number of each window, and how many permits count then. A grant is after all earlier ones, also if the clock was set back.
WITH windows AS MATERIALIZED (
    SELECT k.*, greatest(t.now, last.granted_at + interval '1 microsecond') AS granted_at, coalesce(last.total, 0) + k.permits AS total,
           k.permits + coalesce(last.total - oldest.before, 0) AS used
    FROM (SELECT clock_timestamp() AS now) AS t
    CROSS JOIN unnest($1::uuid[], $2::text[], $3::integer[], $4::integer[]) WITH ORDINALITY AS k (integration_id, operation, most, permits, n)
    LEFT JOIN LATERAL (
        SELECT g.granted_at, g.total FROM rate_limits AS g WHERE g.integration_id = k.integration_id AND g.operation = k.operation
        ORDER BY g.granted_at DESC LIMIT 1
    ) AS last ON true
    LEFT JOIN LATERAL (
        SELECT g.total - g.permits AS before FROM rate_limits AS g WHERE g.integration_id = k.integration_id AND g.operation = k.operation
            AND g.granted_at > t.now - interval '1 minute'
        ORDER BY g.granted_at LIMIT 1
    ) AS oldest ON true
), granted AS (
    INSERT INTO rate_limits (integration_id, operation, granted_at, permits, total)
    SELECT integration_id, operation, granted_at, permits, total FROM windows
)
SELECT n, used, CASE WHEN used > most THEN refuse_memory() END FROM windows
