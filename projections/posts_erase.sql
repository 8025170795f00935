-- Clears the posts of an erased author whose import precedes the erasure in the log: the table may already have later posts. $1: author;
-- $2: log index of the erasure; $3: its recorded_at. Table names are unqualified: search_path selects the live tables or those of a
-- rebuild.
UPDATE posts p
SET author_id = NULL, content_bytes = NULL, changed_at = greatest(p.changed_at, $3::timestamptz)
WHERE p.post_id = ANY ((SELECT posts_of_authors(ARRAY[$1::uuid]))::uuid[]) AND p.log_index < $2::bigint
