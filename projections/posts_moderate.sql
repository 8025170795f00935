-- Applies decisions of staff about single posts. $1: posts, sorted; $3: recorded_at. Table names are unqualified: search_path selects the live
-- tables or those of a rebuild.
UPDATE posts p
SET hidden = m.hidden, moderated_at = m.moderated_at, changed_at = m.moderated_at
FROM unnest($1::uuid[], $2::boolean[], $3::timestamptz[]) AS m (post_id, hidden, moderated_at)
WHERE p.post_id = m.post_id
