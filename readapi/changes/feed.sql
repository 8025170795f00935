-- A page of changes with the contents of their events. $1: partner; $2, $3: position to start after; $4: kinds, NULL for all; $5:
-- maximum number. The event must be the one that the projection applied: after a failover another one may have its position. o: first
-- event of a comment; n: creation of the novel.
SELECT c.kind, e.recorded_at, e.stream_id, e.event_type, e.data, e.personal, o.event_id, o.data ->> 'threadId',
       n.stream_id, n.data ->> 'slug', n.data ->> 'title', /* cursor */, /* replicated */
FROM (
    SELECT transaction_id, position, recorded_at, kind FROM changes
    WHERE integration_id = $1 AND (transaction_id, position) > ($2, $3) AND ($4::text[] IS NULL OR kind = ANY ($4))
    ORDER BY transaction_id, position LIMIT $5
) AS c
JOIN events AS e ON e.transaction_id = c.transaction_id AND e.position = c.position AND e.recorded_at = c.recorded_at
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
ORDER BY c.transaction_id, c.position
