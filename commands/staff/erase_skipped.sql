-- The comments of an author among given deliveries. $1: their ids; $2: the partner's identifier.
SELECT e.stream_id
FROM events e
WHERE e.stream_id = ANY ($1::uuid[]) AND e.stream_version = 1 AND e.personal ->> 'uuid' = $2
ORDER BY e.stream_id
