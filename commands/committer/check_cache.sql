-- Which titles have changed since the cache last heard of them. $1: it has heard of all transactions before this one; $2: how many
-- titles are listed at most.
--
-- On the fast path the transaction fails if $3, the titles that it relies on, may have changed, if one of $4, the authors of its comments,
-- is blocked, or if the epoch is not $5, $6. Without titles nothing is checked.
WITH changed AS MATERIALIZED (
    SELECT t.folded_title FROM events e JOIN title_lookup t ON t.novel_id = e.stream_id
    WHERE e.stream_type = 'novel' AND e.event_type <> 'novel.updated.v1' AND e.transaction_id >= $1::xid8
    ORDER BY e.transaction_id LIMIT $2::integer
), news AS MATERIALIZED (
    -- Titles also change without an event: when the table is rebuilt or folded again.
    SELECT pg_snapshot_xmin(pg_current_snapshot()) AS settled, to_regclass('title_lookup')::oid AS title_table,
           (SELECT s.value FROM settings s WHERE s.name = 'fold_table') AS fold_table,
           ARRAY(SELECT c.folded_title FROM changed c) AS titles
)
SELECT n.settled, n.title_table, n.fold_table, n.titles,
       CASE WHEN $3::text[] IS NOT NULL AND (
                n.titles && $3 OR cardinality(n.titles) >= $2
                OR (n.title_table, n.fold_table) IS DISTINCT FROM ($5::oid, $6::text)
                OR EXISTS (SELECT FROM author_decisions a WHERE a.blocked AND a.author_id = ANY ($4::uuid[])))
            THEN refuse_memory() END
FROM news n
