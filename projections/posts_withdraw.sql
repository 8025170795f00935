-- Clears withdrawn comments. A top-level one without replies vanishes. $1: posts; $2: recorded_at. Table names are unqualified: search_path
-- selects the live tables or those of a rebuild.
UPDATE posts p
SET author_id = NULL, content_bytes = NULL, text_log_index = NULL, withdrawn = true, changed_at = w.changed_at,
    vanished = p.root_post_id IS NULL AND NOT EXISTS (SELECT FROM posts q WHERE q.root_post_id = p.post_id)
FROM unnest($1::uuid[], $2::timestamptz[]) AS w (post_id, changed_at)
WHERE p.post_id = w.post_id
