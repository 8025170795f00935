-- Events of a range of the log, in its order.
-- $1, $2: position to start with, $3, $4: position to stop in front of.
SELECT e.transaction_id, e.position, e.stream_type, e.stream_id, e.stream_version, e.event_id, e.event_source, e.event_type, e.data, e.personal,
       e.salt, e.metadata, e.recorded_at
FROM events AS e
WHERE (e.transaction_id, e.position) >= ($1, $2) AND (e.transaction_id, e.position) < ($3, $4)
ORDER BY e.transaction_id, e.position
