-- Names of authors at a past time: for each one, the event of the comment that had the name then. $1: authors; $2: time.
-- That is the comment with the latest written_at of those received by $2; of several, the last in the log. If the comment that gave an
-- author the current name was received by $2, and the table authors does not lag behind posts, it is that comment (named). For all
-- other authors the statement searches their comments (said).
WITH named AS (
    SELECT a.author_id, v.event_type, v.data, v.personal
    FROM unnest($1::uuid[]) AS k (author_id)
    JOIN authors a ON a.author_id = k.author_id
    JOIN events v ON v.log_index = a.display_name_log_index
    WHERE v.recorded_at <= $2 AND a.display_name_at <= $2 + interval '1 day' -- see discussion.sql
      AND (SELECT x.position FROM projections x WHERE x.name = 'authors') >= (SELECT y.position FROM projections y WHERE y.name = 'posts')
), said AS (
    SELECT p.author_id, p.post_id, p.written_at, max(p.written_at) OVER (PARTITION BY p.author_id) AS latest
    FROM posts p
    WHERE p.post_id = ANY ((SELECT posts_of_authors(ARRAY(SELECT k FROM unnest($1::uuid[]) AS k WHERE k NOT IN (SELECT author_id FROM named))))::uuid[])
      AND p.recorded_at <= $2 AND p.written_at <= $2 + interval '1 day'
)
SELECT * FROM named
UNION ALL
(SELECT DISTINCT ON (s.author_id) s.author_id, v.event_type, v.data, v.personal
FROM said s JOIN events v ON v.stream_id = s.post_id AND v.stream_version = 1
WHERE s.written_at = s.latest
ORDER BY s.author_id, v.log_index DESC)
