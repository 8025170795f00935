-- Leases a chunk. The integration that has waited longest comes first, and of its imports the one that has waited longest. $1: holder;
-- $2: length of the lease. In round 0, chunks with upserts keep the order of the import. If the first chunk that is not leased must wait
-- for an earlier one, so must all chunks after it. 1099511627776 is 2^40, see import_chunks.turn.
WITH due AS (
    SELECT c.import_id, c.first_line, i.integration_id, i.key_id, i.round, i.final, g.can_post, g.can_create_novels, g.review,
           g.lines_per_minute
    FROM (
        SELECT import_id, integration_id, key_id, round, final FROM imports
        WHERE state IN ('open', 'processing') AND resume_at <= now()
        ORDER BY max(worked_at) OVER (PARTITION BY integration_id), worked_at, import_id
    ) AS i
    JOIN integrations AS g ON g.integration_id = i.integration_id AND g.enabled AND g.can_import
    CROSS JOIN LATERAL (
        SELECT c.import_id, c.first_line, c.turn, c.ordered FROM import_chunks AS c
        WHERE c.import_id = i.import_id AND c.unsettled > 0 AND c.turn < (i.round + 1) * 1099511627776
          AND (c.holder IS NULL OR c.holder = $1 OR c.leased_until < now())
        ORDER BY c.turn LIMIT 1 FOR UPDATE SKIP LOCKED
    ) AS c
    WHERE c.turn >= 1099511627776 OR NOT EXISTS (
        SELECT FROM import_chunks AS e
        WHERE e.import_id = c.import_id AND e.unsettled > 0 AND e.turn < c.turn AND (e.ordered OR c.ordered)
    )
    LIMIT 1
)
UPDATE import_chunks AS c SET holder = $1, leased_until = now() + $2::interval
FROM due
WHERE c.import_id = due.import_id AND c.first_line = due.first_line
RETURNING c.import_id, c.first_line, c.turn, c.received_at, due.integration_id, due.key_id, due.round, due.final,
    due.can_post, due.can_create_novels, due.review, due.lines_per_minute
