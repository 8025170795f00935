-- The chapters of a novel with comments, in their order. $1: novel; $2: number of chapters to examine.
SELECT c.chapter_number::text, c.posts
FROM threads t
JOIN chapter_activity c ON c.thread_id = t.thread_id AND c.chapter_number >= 0 AND c.posts > 0
WHERE t.novel_id = $1
ORDER BY c.chapter_number LIMIT $2
