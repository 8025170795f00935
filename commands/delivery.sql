-- The event of a delivery. $1: id of the comment, which derives from its key, or NULL for an upsert; then $2, $3: key and integration
-- of the upsert.
SELECT stream_id, event_type, data, recorded_at FROM events
WHERE stream_id = $1 AND stream_version = 1
UNION ALL
SELECT stream_id, event_type, data, recorded_at FROM events
WHERE $1 IS NULL AND event_id = $2 AND event_source = 'novels' AND integration_id = $3 AND (stream_type <> 'post' OR stream_version > 1)
