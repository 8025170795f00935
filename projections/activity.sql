-- Adds the counts of a batch of comments and of creations and updates of novels. All parts of the statement see the tables as they
-- were before it. Table names are unqualified: search_path selects the live tables or those of a rebuild.
--
-- $1: log index of the first counted event of the batch, $2: position after the last one. $3 to $8: sums per day, integration and novel,
-- $9 to $18: per thread, $19 to $25: per integration, $26 to $29: per chapter, $30 to $32: times of novels. Each in the order of its key,
-- except chapters, because the same number may be written in several ways.
WITH applied AS (
    INSERT INTO activity_applied AS a (position) VALUES ($2)
    ON CONFLICT (one_row) DO UPDATE SET
        position = EXCLUDED.position,
        -- NULL violates the NOT NULL constraint: a batch that was counted in part fails.
        one_row = CASE WHEN a.position <= $1::bigint THEN true END
    WHERE a.position < EXCLUDED.position
    RETURNING true AS new
), days AS (
    INSERT INTO daily_facts AS f (day, integration_id, novel_id, posts, novels_created, novels_updated)
    SELECT u.day, u.integration_id, u.novel_id, u.posts, u.created, u.updated
    FROM unnest($3::date[], $4::uuid[], $5::uuid[], $6::integer[], $7::integer[], $8::integer[])
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
    FROM unnest($9::uuid[], $10::uuid[], $11::integer[], $12::integer[], $13::uuid[], $14::timestamptz[], $15::uuid[], $16::timestamptz[],
                $17::timestamptz[], $18::timestamptz[])
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
    FROM unnest($26::uuid[], $27::text[]::numeric[], $28::integer[], $29::integer[]) AS u (thread_id, chapter_number, posts, replies)
    WHERE (SELECT new FROM applied)
    GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (thread_id, chapter_number) DO UPDATE SET
        posts = c.posts + EXCLUDED.posts,
        replies = c.replies + EXCLUDED.replies
), novels AS (
    INSERT INTO novel_activity AS n (novel_id, created_at, posted_at)
    SELECT u.novel_id, u.created_at, u.posted_at
    FROM unnest($30::uuid[], $31::timestamptz[], $32::timestamptz[]) AS u (novel_id, created_at, posted_at)
    WHERE (SELECT new FROM applied)
    ON CONFLICT (novel_id) DO UPDATE SET
        created_at = greatest(n.created_at, EXCLUDED.created_at),
        posted_at = greatest(n.posted_at, EXCLUDED.posted_at)
    WHERE EXCLUDED.created_at > n.created_at OR EXCLUDED.posted_at > n.posted_at
)
INSERT INTO integration_activity AS i (integration_id, posts, replies, novels_created, novels_updated, first_activity_at, last_activity_at)
SELECT u.integration_id, u.posts, u.replies, u.created, u.updated, u.first_at, u.last_at
FROM unnest($19::uuid[], $20::integer[], $21::integer[], $22::integer[], $23::integer[], $24::timestamptz[], $25::timestamptz[])
     AS u (integration_id, posts, replies, created, updated, first_at, last_at)
WHERE (SELECT new FROM applied)
ON CONFLICT (integration_id) DO UPDATE SET
    posts = i.posts + EXCLUDED.posts,
    replies = i.replies + EXCLUDED.replies,
    novels_created = i.novels_created + EXCLUDED.novels_created,
    novels_updated = i.novels_updated + EXCLUDED.novels_updated,
    first_activity_at = least(i.first_activity_at, EXCLUDED.first_activity_at),
    last_activity_at = greatest(i.last_activity_at, EXCLUDED.last_activity_at)
