-- Events of a range of the log, in its order, with their log index; NULL for one that was never sealed.
-- $1, $2: position to start with, $3, $4: position to stop in front of.
SELECT e.stream_type, e.stream_id, e.stream_version, e.event_id, e.event_source, e.event_type, e.data, e.personal, e.salt, e.metadata,
       e.recorded_at,
       (SELECT s.first_log_index + e.position FROM ledger_seals AS s WHERE s.transaction_id = e.transaction_id AND e.position < s.event_count)
FROM events AS e
WHERE (e.transaction_id, e.position) >= ($1, $2) AND (e.transaction_id, e.position) < ($3, $4)
ORDER BY e.transaction_id, e.position
