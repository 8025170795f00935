-- Adds the events of a batch that concern a partner. $1: their partners, NULL if the event names none; $2: then the novel or comment,
-- which belongs to the partner that created it; $3, $4: positions; $5: recorded_at; $6: kinds. An event of a novel or comment without
-- a partner adds nothing. Only the table changes is unqualified: search_path selects the live table or that of a rebuild.
INSERT INTO changes (integration_id, transaction_id, position, recorded_at, kind)
SELECT o.integration_id, c.transaction_id, c.position, c.recorded_at, c.kind
FROM unnest($1::uuid[], $2::uuid[], $3::xid8[], $4::integer[], $5::timestamptz[], $6::text[])
     AS c (integration_id, subject_id, transaction_id, position, recorded_at, kind)
CROSS JOIN LATERAL (
    SELECT coalesce(c.integration_id, (
        SELECT CASE WHEN e.event_type = 'novel.created.v1' THEN (e.data ->> 'ownerId')::uuid ELSE e.integration_id END
        FROM public.events AS e
        WHERE e.stream_id = c.subject_id AND e.event_type IN ('novel.created.v1', 'post.imported.v1')
        ORDER BY e.stream_version LIMIT 1)) AS integration_id
) AS o
WHERE o.integration_id IS NOT NULL
ON CONFLICT (integration_id, transaction_id, position) DO NOTHING
