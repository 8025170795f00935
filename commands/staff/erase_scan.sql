-- The comments of an author between two positions of the log, settled or not. $1, $2: after; $3, $4: before; $5: integration; $6: the
-- partner's identifier.
SELECT e.stream_id
FROM events e
WHERE (e.transaction_id, e.position) > ($1::xid8, $2::integer) AND (e.transaction_id, e.position) < ($3::xid8, $4::integer)
  AND e.integration_id = $5 AND e.event_source = 'posts' AND e.personal ->> 'uuid' = $6
ORDER BY e.stream_id
