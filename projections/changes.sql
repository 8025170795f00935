-- Adds the events of a batch that concern a partner. $1: their partners, NULL if the event names none; $2: then the novel or comment,
-- which belongs to the partner that created it; $3: log indexes; $4: kinds; $5: whether the event concerns that partner; $6: whether it
-- concerns the partners that have reported the comment before. An event of a novel or comment without a partner adds nothing. Only the
-- table changes is unqualified: search_path selects the live table or that of a rebuild. "+ 0" keeps the planner from a scan of the index
-- of the whole log while the table has no statistics.
INSERT INTO changes (integration_id, log_index, kind)
SELECT o.integration_id, c.log_index, c.kind
FROM unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::text[], $5::boolean[], $6::boolean[])
     AS c (integration_id, subject_id, log_index, kind, owner, reporters)
CROSS JOIN LATERAL (
    SELECT coalesce(c.integration_id, (
        SELECT CASE WHEN e.event_type = 'novel.created.v1' THEN (e.data ->> 'ownerId')::uuid ELSE e.integration_id END
        FROM public.events AS e
        WHERE e.stream_id = c.subject_id AND e.event_type IN ('novel.created.v1', 'post.imported.v1')
        ORDER BY e.stream_version LIMIT 1)) AS integration_id
    WHERE c.owner
    UNION
    SELECT e.integration_id
    FROM public.events AS e
    WHERE c.reporters AND e.stream_id = c.subject_id AND e.event_type = 'post.reported.v1' AND e.log_index + 0 < c.log_index
) AS o
WHERE o.integration_id IS NOT NULL
