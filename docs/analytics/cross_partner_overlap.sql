-- Novels that readers of several partners discuss
SELECT n.title, count(DISTINCT d.integration_id) AS partners, count(DISTINCT d.author_id) AS authors, t.posts, t.replies,
       string_agg(DISTINCT i.name, ', ' ORDER BY i.name) AS "on"
FROM analytics.daily_authors AS d
JOIN analytics.integrations AS i USING (integration_id)
JOIN analytics.novels AS n USING (novel_id)
JOIN analytics.thread_activity AS t USING (novel_id)
GROUP BY n.novel_id, n.title, t.posts, t.replies
HAVING count(DISTINCT d.integration_id) > 1
ORDER BY partners DESC, t.posts DESC, n.title;
