-- The place of a comment in a discussion. $1: slug; $2: comment; $3: number of first replies on a page.
SELECT n.state, root.post_id, root.written_at, root.log_index, p.written_at, p.log_index,
       -- whether it comes after the first replies on a page
       p.root_post_id IS NOT NULL AND coalesce((
           SELECT (w.written_at, w.log_index) < (p.written_at, p.log_index)
           FROM (SELECT q.written_at, q.log_index FROM posts q WHERE q.root_post_id = root.post_id
                 ORDER BY q.written_at, q.log_index OFFSET $3 - 1 LIMIT 1) AS w), false),
       -- whether there are older and newer top-level comments
       EXISTS (SELECT FROM posts q WHERE q.thread_id = t.thread_id AND q.root_post_id IS NULL
                                     AND (q.written_at, q.log_index) < (root.written_at, root.log_index)),
       EXISTS (SELECT FROM posts q WHERE q.thread_id = t.thread_id AND q.root_post_id IS NULL
                                     AND (q.written_at, q.log_index) > (root.written_at, root.log_index))
FROM title_lookup n
JOIN threads t ON t.novel_id = n.novel_id
JOIN posts p ON p.post_id = $2 AND p.thread_id = t.thread_id
JOIN posts root ON root.post_id = coalesce(p.root_post_id, p.post_id)
WHERE n.slug = $1
