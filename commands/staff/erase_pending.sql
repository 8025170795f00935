-- Projections among $1 that have not applied the last erasure of the author $2, and whether they have stopped. A projection without a
-- checkpoint has no data to erase.
SELECT p.name, p.state = 'failed'
FROM projections p
WHERE p.name = ANY ($1::text[]) AND p.position <= (
    SELECT e.log_index
    FROM events e
    WHERE e.stream_id = $2 AND e.event_type = 'author.erased.v1'
    ORDER BY e.stream_version DESC LIMIT 1)
ORDER BY p.name
