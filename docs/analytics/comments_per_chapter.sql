-- Comments per chapter
SELECT n.title, p.chapter_number AS chapter, count(*) AS comments, count(DISTINCT p.author_id) AS authors
FROM analytics.posts AS p
JOIN analytics.novels AS n USING (novel_id)
WHERE p.chapter_number IS NOT NULL
GROUP BY n.novel_id, n.title, p.chapter_number
ORDER BY comments DESC, authors DESC, n.title, chapter
LIMIT 5;
