-- Busiest days
-- Posts can be summed over novels and partners. Authors cannot, because one author may comment on several novels: count them in
-- daily_authors.
SELECT f.day, to_char(f.day, 'Dy') AS weekday, f.posts, a.authors, f.novels_created
FROM (SELECT day, sum(posts) AS posts, sum(novels_created) AS novels_created FROM analytics.daily_facts GROUP BY day) AS f
LEFT JOIN (SELECT day, count(DISTINCT author_id) AS authors FROM analytics.daily_authors GROUP BY day) AS a USING (day)
ORDER BY f.posts DESC, f.day
LIMIT 3;
