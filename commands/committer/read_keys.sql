-- Recorded deliveries. $1: ids of comments, which derive from their keys; $2, $3, $4: keys, integrations and sources of other
-- commands. The slug of a comment's novel is in the novel's first event; a comment that cannot be decoded may name none. The form of
-- the query forces one index probe per comment, whatever the statistics of the table say.
SELECT e.event_id, e.integration_id, e.event_source, e.stream_id, e.event_type, e.data, e.salt, e.fingerprint, e.batch_id, e.request_id,
       (SELECT n.data ->> 'slug' FROM events n WHERE n.stream_version = 1 AND n.stream_id =
           CASE WHEN e.data ->> 'novelId' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN (e.data ->> 'novelId')::uuid END)
FROM unnest($1::uuid[]) AS k (post_id)
CROSS JOIN LATERAL (SELECT * FROM events e WHERE e.stream_id = k.post_id AND e.stream_version = 1 LIMIT 1) AS e
UNION ALL
SELECT e.event_id, e.integration_id, e.event_source, e.stream_id, e.event_type, e.data, e.salt, e.fingerprint, e.batch_id, e.request_id, NULL
FROM unnest($2::text[], $3::uuid[], $4::text[]) AS k (event_id, integration_id, event_source)
JOIN events e ON e.event_id = k.event_id AND e.event_source = k.event_source AND e.integration_id = k.integration_id
    AND (e.stream_type <> 'post' OR e.stream_version > 1)
