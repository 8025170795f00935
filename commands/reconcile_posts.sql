-- Which comments of an integration are on record. $1: keys, $2: the comments' ids, which derive from them. One index probe for
-- each, whatever the planner knows of the table.
SELECT k.event_id
FROM unnest($1::text[], $2::uuid[]) AS k (event_id, post_id)
CROSS JOIN LATERAL (
    SELECT FROM events e WHERE e.stream_id = k.post_id AND e.stream_version = 1 LIMIT 1
) AS e
