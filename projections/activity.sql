-- Counts a batch of comments and of creations and updates of novels. All parts of the statement see the tables as they were before
-- it; events that were counted before are left out, so that a redelivery changes nothing however it is cut. Table
-- names are unqualified: search_path decides which generation is written.
--
-- $1, $2: position in the log; $5 thread and $6 post are NULL for an event of a novel, $7 author for an erased comment too;
-- $9: when it happened (when a comment was written), $10: when it was recorded.
WITH event AS MATERIALIZED (
    SELECT e.*, (e.at AT TIME ZONE 'UTC')::date AS day, e.post_id IS NOT NULL AS post
    FROM unnest($1::xid8[], $2::integer[], $3::uuid[], $4::uuid[], $5::uuid[], $6::uuid[], $7::uuid[], $8::boolean[], $9::timestamptz[],
                $10::timestamptz[], $11::boolean[])
         AS e (transaction_id, position, integration_id, novel_id, thread_id, post_id, author_id, reply, at, recorded_at, created)
    -- Two probes of one row, not a join: the planner would take the table for a large one until it is analysed.
    WHERE (e.transaction_id, e.position) > (coalesce((SELECT a.transaction_id FROM activity_applied AS a WHERE a.one_row), '0'),
                                            coalesce((SELECT a.position FROM activity_applied AS a WHERE a.one_row), -1))
), counted AS MATERIALIZED (
    -- One event of each author, of each author on each novel, and of each author on each novel on each day is marked as the one that
    -- makes the author new there, unless the set knows better. A scalar subquery is a probe of the index at every size of the
    -- table; a join might be planned while the table is empty and read all of it ever after.
    SELECT e.*,
           e.author_id IS NOT NULL AND row_number() OVER (PARTITION BY e.author_id ORDER BY e.novel_id, e.day) = 1
               AND (SELECT true FROM daily_authors AS d WHERE d.author_id = e.author_id ORDER BY d.novel_id, d.day LIMIT 1) IS NULL AS new_author,
           e.author_id IS NOT NULL AND row_number() OVER (PARTITION BY e.author_id, e.novel_id ORDER BY e.day) = 1
               AND (SELECT true FROM daily_authors AS d WHERE d.author_id = e.author_id AND d.novel_id = e.novel_id ORDER BY d.day LIMIT 1) IS NULL AS new_to_novel,
           e.author_id IS NOT NULL AND row_number() OVER (PARTITION BY e.author_id, e.novel_id, e.day) = 1
               AND (SELECT true FROM daily_authors AS d WHERE d.author_id = e.author_id AND d.novel_id = e.novel_id AND d.day = e.day) IS NULL AS new_that_day
    FROM event AS e
), applied AS (
    INSERT INTO activity_applied (transaction_id, position)
    SELECT e.transaction_id, e.position FROM event AS e ORDER BY e.transaction_id DESC, e.position DESC LIMIT 1
    ON CONFLICT (one_row) DO UPDATE SET transaction_id = EXCLUDED.transaction_id, position = EXCLUDED.position
), authors AS (
    INSERT INTO daily_authors (author_id, novel_id, day, integration_id)
    SELECT c.author_id, c.novel_id, c.day, c.integration_id FROM counted AS c WHERE c.new_that_day
    ORDER BY c.author_id, c.novel_id, c.day
), days AS (
    INSERT INTO daily_facts AS f (day, integration_id, novel_id, posts, authors, novels_created, novels_updated)
    SELECT c.day, c.integration_id, c.novel_id, count(*) FILTER (WHERE c.post), count(*) FILTER (WHERE c.new_that_day),
           count(*) FILTER (WHERE c.created), count(*) FILTER (WHERE NOT c.post AND NOT c.created)
    FROM counted AS c GROUP BY c.day, c.integration_id, c.novel_id ORDER BY c.day, c.integration_id, c.novel_id
    ON CONFLICT (day, integration_id, novel_id) DO UPDATE SET
        posts = f.posts + EXCLUDED.posts,
        authors = f.authors + EXCLUDED.authors,
        novels_created = f.novels_created + EXCLUDED.novels_created,
        novels_updated = f.novels_updated + EXCLUDED.novels_updated
), threads AS (
    INSERT INTO thread_activity AS t (thread_id, novel_id, posts, replies, participants, first_post_id, first_post_at,
                                      last_post_id, last_post_at, first_received_at, last_received_at)
    SELECT c.thread_id, c.novel_id, count(*), count(*) FILTER (WHERE c.reply), count(*) FILTER (WHERE c.new_to_novel),
           (array_agg(c.post_id ORDER BY c.at, c.transaction_id, c.position))[1], min(c.at),
           (array_agg(c.post_id ORDER BY c.at DESC, c.transaction_id DESC, c.position DESC))[1], max(c.at),
           min(c.recorded_at), max(c.recorded_at)
    FROM counted AS c WHERE c.post GROUP BY c.thread_id, c.novel_id ORDER BY c.thread_id
    ON CONFLICT (thread_id) DO UPDATE SET
        posts = t.posts + EXCLUDED.posts,
        replies = t.replies + EXCLUDED.replies,
        participants = t.participants + EXCLUDED.participants,
        first_post_id = CASE WHEN EXCLUDED.first_post_at < t.first_post_at THEN EXCLUDED.first_post_id ELSE t.first_post_id END,
        first_post_at = least(t.first_post_at, EXCLUDED.first_post_at),
        last_post_id = CASE WHEN EXCLUDED.last_post_at >= t.last_post_at THEN EXCLUDED.last_post_id ELSE t.last_post_id END,
        last_post_at = greatest(t.last_post_at, EXCLUDED.last_post_at),
        first_received_at = least(t.first_received_at, EXCLUDED.first_received_at),
        last_received_at = greatest(t.last_received_at, EXCLUDED.last_received_at)
)
INSERT INTO integration_activity AS i (integration_id, posts, replies, authors, novels_created, novels_updated, first_activity_at, last_activity_at)
SELECT c.integration_id, count(*) FILTER (WHERE c.post), count(*) FILTER (WHERE c.reply), count(*) FILTER (WHERE c.new_author),
       count(*) FILTER (WHERE c.created), count(*) FILTER (WHERE NOT c.post AND NOT c.created), min(c.recorded_at), max(c.recorded_at)
FROM counted AS c GROUP BY c.integration_id ORDER BY c.integration_id
ON CONFLICT (integration_id) DO UPDATE SET
    posts = i.posts + EXCLUDED.posts,
    replies = i.replies + EXCLUDED.replies,
    authors = i.authors + EXCLUDED.authors,
    novels_created = i.novels_created + EXCLUDED.novels_created,
    novels_updated = i.novels_updated + EXCLUDED.novels_updated,
    first_activity_at = least(i.first_activity_at, EXCLUDED.first_activity_at),
    last_activity_at = greatest(i.last_activity_at, EXCLUDED.last_activity_at)
