-- Applies decisions of staff about single posts. $1: posts, sorted; $3: recorded_at; $4: version of the post's stream, so that a
-- redelivery does not restore an older state. Table names are unqualified: search_path selects the live tables or those of a rebuild.
UPDATE posts p
SET hidden = m.hidden, moderated_at = m.moderated_at, moderated_version = m.moderated_version
FROM unnest($1::uuid[], $2::boolean[], $3::timestamptz[], $4::integer[]) AS m (post_id, hidden, moderated_at, moderated_version)
WHERE p.post_id = m.post_id AND (p.moderated_version IS NULL OR p.moderated_version < m.moderated_version)
