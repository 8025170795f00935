-- The comments of an author in posts, except those before an erasure that posts has not applied yet. $1: author.
SELECT p.post_id
FROM posts p
WHERE p.post_id = ANY ((SELECT posts_of_authors(ARRAY[$1::uuid]))::uuid[]) AND NOT EXISTS (
    SELECT FROM events x
    WHERE x.stream_id = $1 AND x.event_type = 'author.erased.v1'
      AND x.log_index > p.log_index)
ORDER BY p.post_id
