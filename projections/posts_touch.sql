-- Moves changed_at of the posts of an author whose import precedes a decision of staff that the view of analysts shows. $1: author;
-- $2: log index of the decision; $3: its recorded_at.
UPDATE posts p
SET changed_at = $3::timestamptz
WHERE p.author_id = $1::uuid AND p.log_index < $2::bigint AND p.changed_at < $3
