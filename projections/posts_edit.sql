-- Applies edits that are the latest of text or chapter. $1: posts, sorted; $2, $3: log index and length of the new text, NULL if
-- unchanged or erased; $4, $5: whether the chapter changes, and to which; $6: when they were edited; $7: recorded_at. Table names are
-- unqualified: search_path selects the live tables or those of a rebuild.
UPDATE posts p
SET text_log_index = coalesce(e.text_log_index, p.text_log_index),
    content_bytes  = CASE WHEN p.author_id IS NOT NULL THEN coalesce(e.content_bytes, p.content_bytes) END,
    chapter_number = CASE WHEN e.moved THEN e.chapter_number::numeric ELSE p.chapter_number END,
    edited_at      = greatest(p.edited_at, e.edited_at),
    changed_at     = greatest(p.changed_at, e.changed_at)
FROM unnest($1::uuid[], $2::bigint[], $3::integer[], $4::boolean[], $5::text[], $6::timestamptz[], $7::timestamptz[])
     AS e (post_id, text_log_index, content_bytes, moved, chapter_number, edited_at, changed_at)
WHERE p.post_id = e.post_id
