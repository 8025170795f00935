-- The history of a novel, oldest first. $1: novel.
SELECT e.stream_version, e.event_type, e.data, e.personal, e.recorded_at FROM events e WHERE e.stream_id = $1 ORDER BY e.stream_version
