-- Empties the posts of an author who was erased: those whose import comes before that in the log, which says so itself, because posts
-- that came later may be in the table already. $1: author; $2, $3: place of the erasure in the log. A scalar subquery is a
-- probe of the index at every size of the log. Table names are unqualified: search_path decides which generation is written.
UPDATE posts p
SET author_id = NULL, content_bytes = NULL
WHERE p.post_id = ANY ((SELECT posts_of_authors(ARRAY[$1::uuid]))::uuid[])
  AND (SELECT (e.transaction_id, e.position) < ($2::xid8, $3::integer) FROM events e WHERE e.stream_id = p.post_id AND e.stream_version = 1)
