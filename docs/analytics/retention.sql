-- Retention of authors
-- Authors by the week of their first comment, and how many of them commented again one, two, three and four weeks later.
WITH weeks AS (
    SELECT DISTINCT author_id, date_trunc('week', day)::date AS week FROM analytics.daily_authors
), cohorts AS (
    SELECT author_id, week, min(week) OVER (PARTITION BY author_id) AS first_week FROM weeks
)
SELECT first_week, count(DISTINCT author_id) AS authors,
       count(*) FILTER (WHERE week = first_week + 7) AS "after 1 week",
       count(*) FILTER (WHERE week = first_week + 14) AS "2 weeks",
       count(*) FILTER (WHERE week = first_week + 21) AS "3 weeks",
       count(*) FILTER (WHERE week = first_week + 28) AS "4 weeks"
FROM cohorts
GROUP BY first_week
ORDER BY first_week;
