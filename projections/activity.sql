-- Adds the counts of a batch of comments and of creations and updates of novels. All parts of the statement see the tables as they
-- were before it. Table names are unqualified: search_path selects the live tables or those of a rebuild.
--
-- $1 to $6: sums per day, integration and novel, $7 to $16: per thread, $17 to $23: per integration, $24 to $27: per chapter, $28 to $30:
-- times of novels. Each in the order of its key, except chapters, because the same number may be written in several ways.
WITH days AS (
    INSERT INTO daily_facts AS f (day, integration_id, novel_id, posts, novels_created, novels_updated)
    SELECT u.day, u.integration_id, u.novel_id, u.posts, u.created, u.updated
    FROM unnest($1::date[], $2::uuid[], $3::uuid[], $4::integer[], $5::integer[], $6::integer[])
         AS u (day, integration_id, novel_id, posts, created, updated)
    ON CONFLICT (day, integration_id, novel_id) DO UPDATE SET
        posts = f.posts + EXCLUDED.posts,
        novels_created = f.novels_created + EXCLUDED.novels_created,
        novels_updated = f.novels_updated + EXCLUDED.novels_updated
), threads AS (
    INSERT INTO thread_activity AS t (thread_id, novel_id, posts, replies, first_post_id, first_post_at, last_post_id, last_post_at,
                                      first_received_at, last_received_at)
    SELECT u.thread_id, u.novel_id, u.posts, u.replies, u.first_post_id, u.first_post_at, u.last_post_id, u.last_post_at,
           u.first_received_at, u.last_received_at
    FROM unnest($7::uuid[], $8::uuid[], $9::integer[], $10::integer[], $11::uuid[], $12::timestamptz[], $13::uuid[], $14::timestamptz[],
                $15::timestamptz[], $16::timestamptz[])
         AS u (thread_id, novel_id, posts, replies, first_post_id, first_post_at, last_post_id, last_post_at, first_received_at, last_received_at)
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
    FROM unnest($24::uuid[], $25::text[]::numeric[], $26::integer[], $27::integer[]) AS u (thread_id, chapter_number, posts, replies)
    GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (thread_id, chapter_number) DO UPDATE SET
        posts = c.posts + EXCLUDED.posts,
        replies = c.replies + EXCLUDED.replies
), novels AS (
    INSERT INTO novel_activity AS n (novel_id, created_at, posted_at)
    SELECT u.novel_id, u.created_at, u.posted_at
    FROM unnest($28::uuid[], $29::timestamptz[], $30::timestamptz[]) AS u (novel_id, created_at, posted_at)
    ON CONFLICT (novel_id) DO UPDATE SET
        created_at = greatest(n.created_at, EXCLUDED.created_at),
        posted_at = greatest(n.posted_at, EXCLUDED.posted_at)
    WHERE EXCLUDED.created_at > n.created_at OR EXCLUDED.posted_at > n.posted_at
)
INSERT INTO integration_activity AS i (integration_id, posts, replies, novels_created, novels_updated, first_activity_at, last_activity_at)
SELECT u.integration_id, u.posts, u.replies, u.created, u.updated, u.first_at, u.last_at
FROM unnest($17::uuid[], $18::integer[], $19::integer[], $20::integer[], $21::integer[], $22::timestamptz[], $23::timestamptz[])
     AS u (integration_id, posts, replies, created, updated, first_at, last_at)
ON CONFLICT (integration_id) DO UPDATE SET
    posts = i.posts + EXCLUDED.posts,
    replies = i.replies + EXCLUDED.replies,
    novels_created = i.novels_created + EXCLUDED.novels_created,
    novels_updated = i.novels_updated + EXCLUDED.novels_updated,
    first_activity_at = least(i.first_activity_at, EXCLUDED.first_activity_at),
    last_activity_at = greatest(i.last_activity_at, EXCLUDED.last_activity_at)
