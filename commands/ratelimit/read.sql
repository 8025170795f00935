-- Windows of the last minute. $1: integrations, $2: operations, $3: limits. It returns the number of the window, how many permits count,
-- in how many seconds none of them does, and in how many seconds there is a free permit if all free ones are granted now.
SELECT k.n, coalesce(last.total - oldest.before, 0), coalesce(extract(epoch FROM last.granted_at - t.now) + 60, 0)::double precision,
       coalesce(extract(epoch FROM freed.granted_at - t.now) + 60, 60)::double precision
FROM (SELECT clock_timestamp() AS now) AS t
CROSS JOIN unnest($1::uuid[], $2::text[], $3::integer[]) WITH ORDINALITY AS k (integration_id, operation, most, n)
LEFT JOIN LATERAL (
    SELECT g.granted_at, g.total FROM rate_limits AS g WHERE g.integration_id = k.integration_id AND g.operation = k.operation
    ORDER BY g.granted_at DESC LIMIT 1
) AS last ON true
LEFT JOIN LATERAL (
    SELECT g.total - g.permits AS before FROM rate_limits AS g WHERE g.integration_id = k.integration_id AND g.operation = k.operation
        AND g.granted_at > t.now - interval '1 minute'
    ORDER BY g.granted_at LIMIT 1
) AS oldest ON true
-- Below a lowered limit, more than the oldest permits must end first.
LEFT JOIN LATERAL (
    SELECT g.granted_at FROM rate_limits AS g WHERE g.integration_id = k.integration_id AND g.operation = k.operation
        AND g.granted_at > t.now - interval '1 minute' AND g.total > last.total - k.most
    ORDER BY g.granted_at LIMIT 1
) AS freed ON true
