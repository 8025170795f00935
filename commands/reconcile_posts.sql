-- The recorded comments of an integration. $1: keys, $2: ids of the comments, which derive from the keys. The form of the query forces
-- one index probe per comment, whatever the statistics of the table say.
SELECT k.event_id
FROM unnest($1::text[], $2::uuid[]) AS k (event_id, post_id)
CROSS JOIN LATERAL (
    SELECT FROM events e WHERE e.stream_id = k.post_id AND e.stream_version = 1 LIMIT 1
) AS e
