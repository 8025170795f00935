-- Settled events in log order.
-- $1, $2: position to start behind, $3: how many.
SELECT e.transaction_id, e.position, e.stream_type, e.stream_id, e.stream_version, e.event_id, e.event_source, e.event_type,
       e.data, e.personal, e.salt, e.metadata, e.recorded_at
FROM events AS e
WHERE (e.transaction_id, e.position) > ($1, $2) AND e.transaction_id < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY e.transaction_id, e.position LIMIT $3
