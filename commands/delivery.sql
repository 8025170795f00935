-- The event of a delivery. $1: id of the comment, which derives from its key, or NULL for another command; then $2, $3, $4: key,
-- integration and path of the source.
SELECT stream_id, event_type, data, recorded_at FROM events
WHERE stream_id = $1 AND stream_version = 1
UNION ALL
SELECT stream_id, event_type, data, recorded_at FROM events
WHERE $1 IS NULL AND event_id = $2 AND event_source = $4 AND integration_id = $3 AND (stream_type <> 'post' OR stream_version > 1)
