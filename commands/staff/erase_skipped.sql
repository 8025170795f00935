-- An author's comments among some deliveries. $1: keys; $2: source; $3: the partner's identifier.
SELECT e.stream_id
FROM events e
WHERE e.event_id = ANY ($1::text[]) AND e.event_source = $2 AND e.personal ->> 'uuid' = $3
ORDER BY e.stream_id
