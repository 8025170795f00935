-- The end of the log, and whether the cache still holds: the log has the position $1 after the batch $2, no decision about a novel has come
-- since, and the tables that decisions depend on are of the generation $3. Creations do not count, because only open novels are cached.
-- With $4, the authors of the comments that were decided from the cache, it fails unless the cache holds and no author is blocked.
WITH known AS MATERIALIZED (
    SELECT g.generation, g.generation = $3 AND EXISTS (SELECT FROM events AS e WHERE e.log_index = $1::bigint - 1 AND e.batch_id = $2::uuid)
        AND NOT EXISTS (SELECT FROM events AS e WHERE e.log_index >= $1
            AND e.stream_type = 'novel' AND e.event_type NOT IN ('novel.created.v1', 'novel.updated.v1')) AS holds
    FROM (SELECT s.value AS generation FROM settings AS s WHERE s.name = 'inline_generation') AS g
)
SELECT coalesce(l.position, 0), l.batch_id, known.generation, known.holds,
       CASE WHEN $4::uuid[] IS NOT NULL
                AND NOT (known.holds AND NOT EXISTS (SELECT FROM author_decisions AS a WHERE a.blocked AND a.author_id = ANY ($4)))
            THEN refuse_memory() END
FROM known LEFT JOIN (SELECT e.log_index + 1 AS position, e.batch_id FROM events AS e ORDER BY e.log_index DESC LIMIT 1) AS l ON true
