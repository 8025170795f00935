-- The comments of changes. $1: comments; $2: key of the identifiers of the caller's authors. The slug is in the first event of the novel.
-- The form of the query forces index probes, whatever the statistics of the table say. Nothing follows a withdrawal in the stream.
SELECT k.post_id, i.integration_id, i.event_type, i.data, i.personal, v.stream_version, v.event_type LIKE 'post.withdrawn.%',
       l.event_type, l.data,
       EXISTS (SELECT FROM author_decisions a WHERE a.blocked AND a.author_id = author_id(k.author_key, i.personal ->> 'uuid')),
       (SELECT n.data ->> 'slug' FROM events n WHERE n.stream_version = 1 AND n.stream_id = (i.data ->> 'novelId')::uuid)
FROM unnest($1::uuid[], $2::text[]) AS k (post_id, author_key)
CROSS JOIN LATERAL (
    SELECT e.* FROM events e WHERE e.stream_id = k.post_id AND e.stream_version = 1 AND e.stream_type = 'post' LIMIT 1
) AS i
CROSS JOIN LATERAL (SELECT e.* FROM events e WHERE e.stream_id = k.post_id ORDER BY e.stream_version DESC LIMIT 1) AS v
LEFT JOIN LATERAL (
    SELECT e.event_type, e.data FROM events e WHERE e.stream_id = k.post_id AND e.event_type LIKE 'post.edited.%'
    ORDER BY e.stream_version DESC LIMIT 1
) AS l ON true
