-- The comments of an author from a position of the log on that have personal data: their own, of an edit or of a report. $1: position;
-- $2: integration; $3: the partner's identifier.
SELECT DISTINCT e.stream_id
FROM events e
WHERE e.log_index >= $1 AND e.stream_type = 'post' AND e.personal ->> 'uuid' = $3
  AND coalesce((e.personal ->> 'integrationId')::uuid, e.integration_id) = $2
ORDER BY e.stream_id
