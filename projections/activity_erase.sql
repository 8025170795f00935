-- Forgets an author who was erased: what they wrote so far stays counted, they themselves do not. An erasure that was applied before
-- is left out, as in activity.sql: the author may have begun anew since. $1: author; $2, $3: place of the erasure in the log.
-- All parts of the statement see the tables as they were before it. Table names are unqualified: search_path decides which generation
-- is written.
WITH erasure AS MATERIALIZED (
    SELECT $2::xid8 AS transaction_id, $3::integer AS position
    WHERE ($2::xid8, $3::integer) > (coalesce((SELECT a.transaction_id FROM activity_applied AS a WHERE a.one_row), '0'),
                                     coalesce((SELECT a.position FROM activity_applied AS a WHERE a.one_row), -1))
), applied AS (
    INSERT INTO activity_applied (transaction_id, position)
    SELECT e.transaction_id, e.position FROM erasure AS e
    ON CONFLICT (one_row) DO UPDATE SET transaction_id = EXCLUDED.transaction_id, position = EXCLUDED.position
), gone AS (
    DELETE FROM daily_authors AS d WHERE d.author_id = $1::uuid AND EXISTS (SELECT FROM erasure)
    RETURNING d.novel_id, d.day, d.integration_id
), days AS (
    UPDATE daily_facts AS f SET authors = f.authors - 1
    FROM gone AS g WHERE f.day = g.day AND f.integration_id = g.integration_id AND f.novel_id = g.novel_id
), participated AS MATERIALIZED (
    -- The table threads, which knows the thread of every novel as soon as something is written there, only shows where to look: no row of
    -- thread_activity is taken for that of a novel unless it says so itself. A scalar subquery is a probe of the index at every size of the table.
    SELECT g.novel_id, (SELECT t.thread_id FROM thread_activity AS t
                        WHERE t.thread_id = (SELECT o.thread_id FROM threads AS o WHERE o.novel_id = g.novel_id) AND t.novel_id = g.novel_id) AS thread_id
    FROM (SELECT DISTINCT novel_id FROM gone) AS g
), found AS (
    UPDATE thread_activity AS t SET participants = t.participants - 1
    WHERE t.thread_id = ANY (ARRAY(SELECT p.thread_id FROM participated AS p WHERE p.thread_id IS NOT NULL))
), searched AS (
    -- Reads the whole table, and only where the other one lacks a thread.
    UPDATE thread_activity AS t SET participants = t.participants - 1
    WHERE (SELECT true FROM participated AS p WHERE p.thread_id IS NULL LIMIT 1)
      AND t.novel_id = ANY (ARRAY(SELECT p.novel_id FROM participated AS p WHERE p.thread_id IS NULL))
)
UPDATE integration_activity AS i SET authors = i.authors - 1 WHERE i.integration_id IN (SELECT g.integration_id FROM gone AS g)
