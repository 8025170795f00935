-- A page of changes with the contents of their events. $1: partner; $2: position to start from; $3: kinds, NULL for all; $4: maximum
-- number. o: first event of a comment; n: creation of the novel.
SELECT c.kind, e.recorded_at, e.stream_id, e.event_type, e.data, e.personal, o.event_id, o.data ->> 'threadId',
       n.stream_id, n.data ->> 'slug', n.data ->> 'title', /* cursor */, /* replicated */
FROM (
    SELECT log_index, kind FROM changes
    WHERE integration_id = $1 AND log_index >= $2 AND ($3::text[] IS NULL OR kind = ANY ($3))
    ORDER BY log_index LIMIT $4
) AS c
JOIN events AS e ON e.log_index = c.log_index
LEFT JOIN LATERAL (
    SELECT f.event_id, f.data FROM events AS f WHERE e.stream_type = 'post' AND f.stream_id = e.stream_id AND f.stream_version = 1
) AS o ON true
LEFT JOIN LATERAL (
    SELECT f.stream_id, f.data FROM events AS f
    WHERE f.stream_id = CASE e.stream_type WHEN 'novel' THEN e.stream_id WHEN 'thread' THEN (e.data ->> 'novelId')::uuid
            WHEN 'post' THEN (o.data ->> 'novelId')::uuid END
        AND f.event_type = 'novel.created.v1'
    ORDER BY f.stream_version LIMIT 1
) AS n ON true
ORDER BY c.log_index
