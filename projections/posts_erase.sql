-- Clears the posts of an erased author whose import precedes the erasure in the log. A subquery compares the places, because the table
-- may already have later posts. It is scalar, so it is an index probe whatever the size of the log. $1: author; $2: log index of the
-- erasure. Table names are unqualified: search_path selects the live tables or those of a rebuild.
UPDATE posts p
SET author_id = NULL, content_bytes = NULL
WHERE p.post_id = ANY ((SELECT posts_of_authors(ARRAY[$1::uuid]))::uuid[])
  AND (SELECT e.log_index < $2::bigint FROM events e WHERE e.stream_id = p.post_id AND e.stream_version = 1)
