-- The comments of an author to erase that posts has applied, except those before an erasure that it has not applied yet, or skipped.
-- $1: author; $2: ids of skipped comments, of any author; $3: the partner's identifier.
SELECT p.post_id
FROM posts p
WHERE p.author_id = $1::uuid AND NOT EXISTS (
    SELECT FROM events x
    WHERE x.stream_id = $1 AND x.event_type = 'author.erased.v1'
      AND x.log_index > p.log_index)
UNION ALL
SELECT e.stream_id
FROM events e
WHERE e.stream_id = ANY ($2::uuid[]) AND e.stream_version = 1 AND e.personal ->> 'uuid' = $3
