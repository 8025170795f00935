-- The event that a delivery left. $1: the comment's id, which derives from its key, or NULL; $2, $3: key and integration of a novel's
-- upsert otherwise.
SELECT stream_id, event_type, data, recorded_at FROM events
WHERE stream_id = $1 AND stream_version = 1
UNION ALL
SELECT stream_id, event_type, data, recorded_at FROM events
WHERE $1 IS NULL AND event_id = $2 AND event_source = 'novels' AND integration_id = $3 AND (stream_type <> 'post' OR stream_version > 1)
