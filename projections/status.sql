-- Checkpoints, lags and unfinished rebuilds of all asynchronous projections.
SELECT p.name, p.generation, p.state, p.position, (SELECT coalesce(max(e.log_index) + 1, 0) FROM events AS e) - p.position,
       coalesce(greatest(extract(epoch FROM statement_timestamp() - oldest.recorded_at), 0), 0)::double precision,
       p.error, p.failed_log_index, p.unknown_type, p.updated_at,
       r.generation, r.position, r.events_total, r.started_at, r.error
FROM projections AS p
LEFT JOIN events AS oldest ON oldest.log_index = p.position
LEFT JOIN projection_rebuilds AS r ON r.name = p.name AND r.finished_at IS NULL
ORDER BY p.name
