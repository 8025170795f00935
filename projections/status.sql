-- Where each projection stands. $1: how many events to count at most, so that a long lag costs no long scan.
SELECT p.name, p.generation, p.state, p.transaction_id, p.position, lag.events, lag.seconds,
       p.error, p.failed_transaction_id, p.failed_position, p.unknown_type, p.updated_at
FROM projections AS p
CROSS JOIN LATERAL projection_lag(p.transaction_id, p.position, $1) AS lag
ORDER BY p.name
