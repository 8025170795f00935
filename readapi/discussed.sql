-- Novels with the most comments since a day, of those that were commented on last. $1: day; $2: number of novels to examine; $3: number of novels.
SELECT s.novel_id, n.slug, n.title, coalesce(n.details ->> 'language', ''), coalesce(n.details ->> 'coverUrl', ''), s.posts
FROM (
    SELECT k.novel_id, sum(f.posts)::integer AS posts
    FROM (
        SELECT a.novel_id FROM novel_activity a WHERE a.posted_at >= $1::date::timestamp AT TIME ZONE 'UTC'
        ORDER BY a.posted_at DESC, a.created_at DESC, a.novel_id DESC LIMIT $2
    ) AS k
    JOIN daily_facts f ON f.novel_id = k.novel_id AND f.day >= $1
    GROUP BY k.novel_id
) AS s
JOIN title_lookup n ON n.novel_id = s.novel_id
JOIN novels x ON x.novel_id = s.novel_id
WHERE n.state IN ('approved', 'published') AND s.posts > 0
ORDER BY s.posts DESC, x.search, n.novel_id LIMIT $3
