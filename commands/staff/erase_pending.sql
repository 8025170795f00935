-- Those of some projections that have yet to come to the last erasure of an author, and whether they have stopped. One that has never run
-- has nothing to forget. $1: names; $2: author.
SELECT p.name, p.state = 'failed'
FROM projections p
WHERE p.name = ANY ($1::text[]) AND (p.transaction_id, p.position) < (
    SELECT e.transaction_id, e.position
    FROM events e
    WHERE e.stream_id = $2 AND e.event_type = 'author.erased.v1'
    ORDER BY e.stream_version DESC LIMIT 1)
ORDER BY p.name
