-- Checkpoints, lags and unfinished rebuilds of all asynchronous projections. $1: maximum number of events to count, which limits the scan.
SELECT p.name, p.generation, p.state, p.transaction_id, p.position, lag.events, lag.seconds,
       p.error, p.failed_transaction_id, p.failed_position, p.unknown_type, p.updated_at,
       r.generation, r.phase, r.events_done, r.events_total, r.started_at, r.error
FROM projections AS p
CROSS JOIN LATERAL projection_lag(p.transaction_id, p.position, $1) AS lag
LEFT JOIN projection_rebuilds AS r ON r.name = p.name AND r.phase <> 'finished'
ORDER BY p.name
