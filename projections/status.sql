-- Where each projection stands. $1: how many events to count at most, so that a long lag costs no long scan.
SELECT p.name, p.generation, p.state, p.transaction_id, p.position,
       lag.events, lag.events > $1 AS capped,
       coalesce(greatest(extract(epoch FROM statement_timestamp() - oldest.recorded_at), 0), 0)::float8 AS seconds,
       p.error, p.failed_transaction_id, p.failed_position, p.unknown_type, p.updated_at
FROM projections AS p
CROSS JOIN (SELECT pg_snapshot_xmin(pg_current_snapshot()) AS xmin) AS s
CROSS JOIN LATERAL (
    SELECT count(*) AS events
    FROM (SELECT FROM events AS e
          WHERE (e.transaction_id, e.position) > (p.transaction_id, p.position) AND e.transaction_id < s.xmin
          ORDER BY e.transaction_id, e.position LIMIT $1 + 1) AS counted
) AS lag
LEFT JOIN LATERAL (
    SELECT e.recorded_at FROM events AS e
    WHERE (e.transaction_id, e.position) > (p.transaction_id, p.position) AND e.transaction_id < s.xmin
    ORDER BY e.transaction_id, e.position LIMIT 1
) AS oldest ON true
ORDER BY p.name
