-- Depth of replies
-- From the comments that reply to none, reply by reply. Depth 0 is a top-level comment.
WITH RECURSIVE conversation AS (
    SELECT post_id, thread_id, 0 AS depth FROM analytics.posts WHERE parent_post_id IS NULL
    UNION ALL
    SELECT p.post_id, p.thread_id, c.depth + 1
    FROM conversation AS c
    JOIN analytics.posts AS p ON p.parent_post_id = c.post_id
)
SELECT depth, count(*) AS comments, count(DISTINCT thread_id) AS threads
FROM conversation
GROUP BY depth
ORDER BY depth;
