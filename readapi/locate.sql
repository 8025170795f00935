-- The place of a comment in a discussion. $1: slug; $2: comment; $3: number of first replies on a page; $4: last chapter
-- of the comments, Infinity for all. A comment on a later chapter is found among all.
SELECT n.state, root.post_id, root.written_at, root.log_index, p.written_at, p.log_index,
       f.up_to > $4::text::numeric, -- whether it is on a later chapter
       -- whether it comes after the first replies on a page
       p.root_post_id IS NOT NULL AND coalesce((
           SELECT (w.written_at, w.log_index) < (p.written_at, p.log_index)
           FROM (SELECT q.written_at, q.log_index FROM posts q WHERE q.root_post_id = root.post_id AND coalesce(q.chapter_number, 0) <= f.up_to
                 ORDER BY q.written_at, q.log_index OFFSET $3 - 1 LIMIT 1) AS w), false),
       -- whether there are older and newer top-level comments
       EXISTS (SELECT FROM posts q WHERE q.thread_id = t.thread_id AND q.root_post_id IS NULL AND NOT q.vanished
                                     AND (q.written_at, q.log_index) < (root.written_at, root.log_index)
                                     AND coalesce(q.chapter_number, 0) <= f.up_to),
       EXISTS (SELECT FROM posts q WHERE q.thread_id = t.thread_id AND q.root_post_id IS NULL AND NOT q.vanished
                                     AND (q.written_at, q.log_index) > (root.written_at, root.log_index)
                                     AND coalesce(q.chapter_number, 0) <= f.up_to)
FROM title_lookup n
JOIN threads t ON t.novel_id = n.novel_id
JOIN posts p ON p.post_id = $2 AND p.thread_id = t.thread_id
JOIN posts root ON root.post_id = coalesce(p.root_post_id, p.post_id)
CROSS JOIN LATERAL (SELECT CASE WHEN coalesce(greatest(root.chapter_number, p.chapter_number), 0) <= $4::text::numeric
                                THEN $4::text::numeric ELSE 'Infinity' END AS up_to) AS f
WHERE n.slug = $1
