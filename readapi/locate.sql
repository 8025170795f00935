-- The place of a comment in a discussion. $1: slug; $2: comment; $3: time: comments received later are left out; $4: number of first
-- replies on a page; $5: maximum of the counts.
SELECT n.state, root.post_id, root.written_at, p.post_id, p.recorded_at, p.depth,
       -- whether it comes after the first replies on a page
       coalesce((SELECT (w.recorded_at, w.depth, w.post_id) < (p.recorded_at, p.depth, p.post_id)
                 FROM (SELECT q.recorded_at, q.depth, q.post_id FROM posts q
                       WHERE q.root_post_id = root.post_id AND q.recorded_at <= $3
                       ORDER BY q.recorded_at, q.depth, q.post_id OFFSET $4 - 1 LIMIT 1) AS w), false) AND p.root_post_id IS NOT NULL,
       -- number of top-level comments before and after it, up to $5
       (SELECT count(*) FROM (SELECT FROM posts q WHERE q.thread_id = t.thread_id AND q.root_post_id IS NULL AND q.recorded_at <= $3
                              AND (q.written_at, q.post_id) < (root.written_at, root.post_id) LIMIT $5) AS before),
       (SELECT count(*) FROM (SELECT FROM posts q WHERE q.thread_id = t.thread_id AND q.root_post_id IS NULL AND q.recorded_at <= $3
                              AND q.written_at <= $3 + interval '1 day' -- see discussion.sql
                              AND (q.written_at, q.post_id) > (root.written_at, root.post_id) LIMIT $5) AS behind)
FROM title_lookup n
JOIN threads t ON t.novel_id = n.novel_id
JOIN posts p ON p.post_id = $2 AND p.thread_id = t.thread_id AND p.recorded_at <= $3
JOIN posts root ON root.post_id = coalesce(p.root_post_id, p.post_id)
WHERE n.slug = $1
