-- Moves changed_at of all erased posts of an integration. In a replay, an erased post no longer names its author, so only this makes the
-- rows of a replay equal to those of the first time. $1: integration; $2: log index of the erasure; $3: its recorded_at.
UPDATE posts p
SET changed_at = $3::timestamptz
WHERE p.author_id IS NULL AND p.integration_id = $1::uuid AND p.log_index < $2::bigint AND p.changed_at < $3
