-- Adds what a batch of comments and of creations and updates of novels comes to. It is counted before it gets here; the statement only finds
-- out which authors are new. All its parts see the tables as they were before it. Table names are unqualified: search_path decides which
-- generation is written.
--
-- $1, $2: place of the batch's first event in the log, $3, $4: of its last. $5 to $9: who wrote on what on which day, each once,
-- in order; $10: the first line of an author, $11: the first of an author on a novel. $12 to $17: sums per day, integration and novel,
-- $18 to $27: per thread, $28 to $34: per integration.
WITH applied AS (
    INSERT INTO activity_applied AS a (transaction_id, position) VALUES ($3, $4)
    ON CONFLICT (one_row) DO UPDATE SET
        transaction_id = EXCLUDED.transaction_id,
        position = EXCLUDED.position,
        -- Not null: a batch of which a part was counted before cannot be counted.
        one_row = CASE WHEN (a.transaction_id, a.position) < ($1::xid8, $2::integer) THEN true END
    WHERE (a.transaction_id, a.position) < (EXCLUDED.transaction_id, EXCLUDED.position)
    RETURNING true AS new
), present AS MATERIALIZED (
    -- A scalar subquery is a probe of the index at every size of the table; a join might be planned while the table is empty and read all
    -- of it ever after.
    SELECT p.author_id, p.novel_id, p.day, p.integration_id, p.thread_id,
           CASE WHEN (SELECT true FROM daily_authors AS d WHERE d.author_id = p.author_id AND d.novel_id = p.novel_id AND d.day = p.day) THEN 0
                WHEN NOT p.first_on_novel
                    OR (SELECT true FROM daily_authors AS d WHERE d.author_id = p.author_id AND d.novel_id = p.novel_id ORDER BY d.day LIMIT 1) THEN 1
                WHEN NOT p.first
                    OR (SELECT true FROM daily_authors AS d WHERE d.author_id = p.author_id ORDER BY d.novel_id, d.day LIMIT 1) THEN 2
                ELSE 3
           END AS newness -- 1: that day, 2: on the novel, too, 3: altogether
    FROM unnest($5::uuid[], $6::uuid[], $7::date[], $8::uuid[], $9::uuid[], $10::boolean[], $11::boolean[])
         AS p (author_id, novel_id, day, integration_id, thread_id, first, first_on_novel)
    WHERE (SELECT new FROM applied)
), authors AS (
    INSERT INTO daily_authors (author_id, novel_id, day, integration_id)
    SELECT p.author_id, p.novel_id, p.day, p.integration_id FROM present AS p WHERE p.newness > 0
), days AS (
    INSERT INTO daily_facts AS f (day, integration_id, novel_id, posts, authors, novels_created, novels_updated)
    SELECT c.day, c.integration_id, c.novel_id, sum(c.posts), sum(c.authors), sum(c.created), sum(c.updated)
    FROM (SELECT u.day, u.integration_id, u.novel_id, u.posts, 0 AS authors, u.created, u.updated
          FROM unnest($12::date[], $13::uuid[], $14::uuid[], $15::integer[], $16::integer[], $17::integer[])
               AS u (day, integration_id, novel_id, posts, created, updated)
          UNION ALL
          SELECT p.day, p.integration_id, p.novel_id, 0, 1, 0, 0 FROM present AS p WHERE p.newness > 0) AS c
    WHERE (SELECT new FROM applied)
    GROUP BY c.day, c.integration_id, c.novel_id ORDER BY c.day, c.integration_id, c.novel_id
    ON CONFLICT (day, integration_id, novel_id) DO UPDATE SET
        posts = f.posts + EXCLUDED.posts,
        authors = f.authors + EXCLUDED.authors,
        novels_created = f.novels_created + EXCLUDED.novels_created,
        novels_updated = f.novels_updated + EXCLUDED.novels_updated
), threads AS (
    INSERT INTO thread_activity AS t (thread_id, novel_id, posts, replies, participants, first_post_id, first_post_at,
                                      last_post_id, last_post_at, first_received_at, last_received_at)
    SELECT c.thread_id, c.novel_id, sum(c.posts), sum(c.replies), sum(c.participants),
           (array_agg(c.first_post_id) FILTER (WHERE c.posts > 0))[1], max(c.first_post_at),
           (array_agg(c.last_post_id) FILTER (WHERE c.posts > 0))[1], max(c.last_post_at), max(c.first_received_at), max(c.last_received_at)
    FROM (SELECT u.thread_id, u.novel_id, u.posts, u.replies, 0 AS participants, u.first_post_id, u.first_post_at,
                 u.last_post_id, u.last_post_at, u.first_received_at, u.last_received_at
          FROM unnest($18::uuid[], $19::uuid[], $20::integer[], $21::integer[], $22::uuid[], $23::timestamptz[], $24::uuid[], $25::timestamptz[],
                      $26::timestamptz[], $27::timestamptz[])
               AS u (thread_id, novel_id, posts, replies, first_post_id, first_post_at, last_post_id, last_post_at, first_received_at, last_received_at)
          UNION ALL
          SELECT p.thread_id, p.novel_id, 0, 0, 1, NULL, NULL, NULL, NULL, NULL, NULL FROM present AS p WHERE p.newness > 1) AS c
    WHERE (SELECT new FROM applied)
    GROUP BY c.thread_id, c.novel_id ORDER BY c.thread_id
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
SELECT c.integration_id, sum(c.posts), sum(c.replies), sum(c.authors), sum(c.created), sum(c.updated), max(c.first_at), max(c.last_at)
FROM (SELECT u.integration_id, u.posts, u.replies, 0 AS authors, u.created, u.updated, u.first_at, u.last_at
      FROM unnest($28::uuid[], $29::integer[], $30::integer[], $31::integer[], $32::integer[], $33::timestamptz[], $34::timestamptz[])
           AS u (integration_id, posts, replies, created, updated, first_at, last_at)
      UNION ALL
      SELECT p.integration_id, 0, 0, 1, 0, 0, NULL, NULL FROM present AS p WHERE p.newness > 2) AS c
WHERE (SELECT new FROM applied)
GROUP BY c.integration_id ORDER BY c.integration_id
ON CONFLICT (integration_id) DO UPDATE SET
    posts = i.posts + EXCLUDED.posts,
    replies = i.replies + EXCLUDED.replies,
    authors = i.authors + EXCLUDED.authors,
    novels_created = i.novels_created + EXCLUDED.novels_created,
    novels_updated = i.novels_updated + EXCLUDED.novels_updated,
    first_activity_at = least(i.first_activity_at, EXCLUDED.first_activity_at),
    last_activity_at = greatest(i.last_activity_at, EXCLUDED.last_activity_at)
