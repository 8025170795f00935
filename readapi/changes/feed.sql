-- A page of changes with their contents, without erased data and without data of other partners. $1: partner; $2: position to start
-- from; $3: kinds, NULL for all; $4: maximum number. o: first event of a comment; n: creation of the novel.
SELECT c.kind, e.recorded_at,
       CASE split_part(c.kind, '.', 1)
           WHEN 'novel' THEN json_build_object('novelId', n.stream_id, 'novel', n.data ->> 'title', 'slug', n.data ->> 'slug',
               'reason', r.reason)
           WHEN 'thread' THEN json_build_object('novelId', n.stream_id, 'novel', n.data ->> 'title', 'slug', n.data ->> 'slug',
               'threadId', e.stream_id)
           WHEN 'author' THEN json_build_object('authorId', e.stream_id, 'uuid', e.personal ->> 'uuid', 'reason', r.reason)
           ELSE json_build_object('idempotencyKey', CASE WHEN o.integration_id = $1 THEN o.event_id END, 'postId', e.stream_id, 'threadId', o.data ->> 'threadId',
               'novelId', n.stream_id, 'novel', n.data ->> 'title', 'slug', n.data ->> 'slug', 'reason', r.reason)
       END, e.log_index + 1, e.batch_id, /* replicated */
FROM (
    SELECT log_index, kind FROM changes
    WHERE integration_id = $1 AND log_index >= $2 AND ($3::text[] IS NULL OR kind = ANY ($3))
    ORDER BY log_index LIMIT $4
) AS c
JOIN events AS e ON e.log_index = c.log_index
CROSS JOIN LATERAL (SELECT coalesce(e.data ->> 'reason', '') AS reason) AS r
LEFT JOIN LATERAL (
    SELECT f.event_id, f.integration_id, f.data FROM events AS f WHERE e.stream_type = 'post' AND f.stream_id = e.stream_id AND f.stream_version = 1
) AS o ON true
LEFT JOIN LATERAL (
    SELECT f.stream_id, f.data FROM events AS f
    WHERE f.stream_id = CASE e.stream_type WHEN 'novel' THEN e.stream_id WHEN 'thread' THEN (e.data ->> 'novelId')::uuid
            WHEN 'post' THEN (o.data ->> 'novelId')::uuid END
        AND f.event_type = 'novel.created.v1'
    ORDER BY f.stream_version LIMIT 1
) AS n ON true
ORDER BY c.log_index
