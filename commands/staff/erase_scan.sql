-- The comments of an author after a position of the log, settled or not, that are not erased. $1, $2: after; $3: integration; $4: the
-- partner's identifier.
SELECT e.stream_id
FROM events e
WHERE (e.transaction_id, e.position) > ($1::xid8, $2::integer)
  AND e.integration_id = $3 AND e.event_source = 'posts' AND e.personal ->> 'uuid' = $4
ORDER BY e.stream_id
