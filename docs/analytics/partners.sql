-- What each partner delivers
SELECT i.name AS partner, a.posts, a.replies, round(100.0 * a.replies / nullif(a.posts, 0)) AS "replies %", a.authors, a.novels_created, a.novels_updated
FROM analytics.integration_activity AS a
JOIN analytics.integrations AS i USING (integration_id)
ORDER BY a.posts DESC, i.name;
