-- What a lane has to hear about what it remembers. $1: it has heard of all transactions before this one; $2: how many titles it wants to
-- hear of at most.
--
-- $3: titles that must not have changed, $4: authors that must not be blocked, $5, $6: the epoch that it must be; otherwise the
-- transaction fails. Without titles anything may be.
WITH changed AS MATERIALIZED (
    SELECT t.folded_title FROM events e JOIN title_lookup t ON t.novel_id = e.stream_id
    WHERE e.stream_type = 'novel' AND e.event_type <> 'novel.updated.v1' AND e.transaction_id >= $1::xid8
    ORDER BY e.transaction_id LIMIT $2::integer
), news AS MATERIALIZED (
    -- Titles also change without an event: when the table is rebuilt or folded anew.
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
