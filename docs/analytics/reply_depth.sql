-- Depth of replies
-- Depth 0 is a top-level comment, depth 1 an answer to one.
SELECT depth, count(*) AS comments, count(DISTINCT thread_id) AS threads
FROM analytics.posts
GROUP BY depth
ORDER BY depth;
