-- Returns the titles that have changed since the last check of the cache, and the versions of the cache: title_table and fold_table.
-- $1: position, as the last check returned it: the cache reflects all events before it; $2: maximum number of titles.
--
-- On the fast path the statement fails if one of the cached titles $3 may have changed, if one of the authors $4 is blocked, or if the
-- versions are not $5 and $6. If $3 is NULL, it checks nothing.
WITH changed AS MATERIALIZED (
    SELECT t.folded_title FROM events e JOIN title_lookup t ON t.novel_id = e.stream_id
    WHERE e.stream_type = 'novel' AND e.event_type <> 'novel.updated.v1' AND e.log_index >= $1::bigint
    ORDER BY e.log_index LIMIT $2::integer
), news AS MATERIALIZED (
    -- Titles also change without an event: when the table is rebuilt, or folded with another Unicode table.
    SELECT (SELECT coalesce(max(l.log_index) + 1, 0) FROM events l) AS position, to_regclass('title_lookup')::oid AS title_table,
           (SELECT s.value FROM settings s WHERE s.name = 'fold_table') AS fold_table,
           ARRAY(SELECT c.folded_title FROM changed c) AS titles
)
SELECT n.position, n.title_table, n.fold_table, n.titles,
       CASE WHEN $3::text[] IS NOT NULL AND (
                n.titles && $3 OR cardinality(n.titles) >= $2
                OR (n.title_table, n.fold_table) IS DISTINCT FROM ($5::oid, $6::text)
                OR EXISTS (SELECT FROM author_decisions a WHERE a.blocked AND a.author_id = ANY ($4::uuid[])))
            THEN refuse_memory() END
FROM news n
