-- The comments of an author from a position of the log on that are not erased. $1: position; $2: integration; $3: the partner's
-- identifier.
SELECT e.stream_id
FROM events e
WHERE e.log_index >= $1
  AND e.integration_id = $2 AND e.event_source = 'posts' AND e.personal ->> 'uuid' = $3
ORDER BY e.stream_id
