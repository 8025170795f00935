-- Adds the counts of a batch of comments and of creations and updates of novels. All parts of the statement see the tables as they
-- were before it. Table names are unqualified: search_path selects the live tables or those of a rebuild.
--
-- $1, $2: position of the batch's first event, $3, $4: of its last. $5 to $10: sums per day, integration and novel, $11 to $20: per
-- thread, $21 to $27: per integration, $28 to $31: per chapter, $32 to $34: times of novels. Each in the order of its key, except
-- chapters, because the same number may be written in several ways.
WITH applied AS (
    INSERT INTO activity_applied AS a (transaction_id, position) VALUES ($3, $4)
    ON CONFLICT (one_row) DO UPDATE SET
        transaction_id = EXCLUDED.transaction_id,
        position = EXCLUDED.position,
        -- NULL violates the NOT NULL constraint: a batch that was counted in part fails.
        one_row = CASE WHEN (a.transaction_id, a.position) < ($1::xid8, $2::integer) THEN true END
    WHERE (a.transaction_id, a.position) < (EXCLUDED.transaction_id, EXCLUDED.position)
    RETURNING true AS new
), days AS (
    INSERT INTO daily_facts AS f (day, integration_id, novel_id, posts, novels_created, novels_updated)
    SELECT u.day, u.integration_id, u.novel_id, u.posts, u.created, u.updated
    FROM unnest($5::date[], $6::uuid[], $7::uuid[], $8::integer[], $9::integer[], $10::integer[])
         AS u (day, integration_id, novel_id, posts, created, updated)
    WHERE (SELECT new FROM applied)
    ON CONFLICT (day, integration_id, novel_id) DO UPDATE SET
        posts = f.posts + EXCLUDED.posts,
        novels_created = f.novels_created + EXCLUDED.novels_created,
        novels_updated = f.novels_updated + EXCLUDED.novels_updated
), threads AS (
    INSERT INTO thread_activity AS t (thread_id, novel_id, posts, replies, first_post_id, first_post_at, last_post_id, last_post_at,
                                      first_received_at, last_received_at)
    SELECT u.thread_id, u.novel_id, u.posts, u.replies, u.first_post_id, u.first_post_at, u.last_post_id, u.last_post_at,
           u.first_received_at, u.last_received_at
    FROM unnest($11::uuid[], $12::uuid[], $13::integer[], $14::integer[], $15::uuid[], $16::timestamptz[], $17::uuid[], $18::timestamptz[],
                $19::timestamptz[], $20::timestamptz[])
         AS u (thread_id, novel_id, posts, replies, first_post_id, first_post_at, last_post_id, last_post_at, first_received_at, last_received_at)
    WHERE (SELECT new FROM applied)
    ON CONFLICT (thread_id) DO UPDATE SET
        posts = t.posts + EXCLUDED.posts,
        replies = t.replies + EXCLUDED.replies,
        first_post_id = CASE WHEN EXCLUDED.first_post_at < t.first_post_at THEN EXCLUDED.first_post_id ELSE t.first_post_id END,
        first_post_at = least(t.first_post_at, EXCLUDED.first_post_at),
        last_post_id = CASE WHEN EXCLUDED.last_post_at >= t.last_post_at THEN EXCLUDED.last_post_id ELSE t.last_post_id END,
        last_post_at = greatest(t.last_post_at, EXCLUDED.last_post_at),
        first_received_at = least(t.first_received_at, EXCLUDED.first_received_at),
        last_received_at = greatest(t.last_received_at, EXCLUDED.last_received_at)
), chapters AS (
    INSERT INTO chapter_activity AS c (thread_id, chapter_number, posts, replies)
    SELECT u.thread_id, trim_scale(u.chapter_number), sum(u.posts), sum(u.replies)
    FROM unnest($28::uuid[], $29::text[]::numeric[], $30::integer[], $31::integer[]) AS u (thread_id, chapter_number, posts, replies)
    WHERE (SELECT new FROM applied)
    GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (thread_id, chapter_number) DO UPDATE SET
        posts = c.posts + EXCLUDED.posts,
        replies = c.replies + EXCLUDED.replies
), novels AS (
    INSERT INTO novel_activity AS n (novel_id, created_at, posted_at)
    SELECT u.novel_id, u.created_at, u.posted_at
    FROM unnest($32::uuid[], $33::timestamptz[], $34::timestamptz[]) AS u (novel_id, created_at, posted_at)
    WHERE (SELECT new FROM applied)
    ON CONFLICT (novel_id) DO UPDATE SET
        created_at = greatest(n.created_at, EXCLUDED.created_at),
        posted_at = greatest(n.posted_at, EXCLUDED.posted_at)
    WHERE EXCLUDED.created_at > n.created_at OR EXCLUDED.posted_at > n.posted_at
)
INSERT INTO integration_activity AS i (integration_id, posts, replies, novels_created, novels_updated, first_activity_at, last_activity_at)
SELECT u.integration_id, u.posts, u.replies, u.created, u.updated, u.first_at, u.last_at
FROM unnest($21::uuid[], $22::integer[], $23::integer[], $24::integer[], $25::integer[], $26::timestamptz[], $27::timestamptz[])
     AS u (integration_id, posts, replies, created, updated, first_at, last_at)
WHERE (SELECT new FROM applied)
ON CONFLICT (integration_id) DO UPDATE SET
    posts = i.posts + EXCLUDED.posts,
    replies = i.replies + EXCLUDED.replies,
    novels_created = i.novels_created + EXCLUDED.novels_created,
    novels_updated = i.novels_updated + EXCLUDED.novels_updated,
    first_activity_at = least(i.first_activity_at, EXCLUDED.first_activity_at),
    last_activity_at = greatest(i.last_activity_at, EXCLUDED.last_activity_at)
