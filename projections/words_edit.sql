-- Replaces the words of edited comments. $1: posts; $2: hashes of words, of all comments in turn; $3, $4: the first and the last of each
-- comment, counted from 1. An erased comment has no row. Table names are unqualified, except of the log: search_path selects the live table
-- or that of a rebuild.
UPDATE post_words w
SET words = w.words[1] || ARRAY(SELECT w.log_index >> 16 << 32 | h FROM unnest(($2::bigint[])[e.first:e.last]) AS h)
FROM (
    SELECT p.first, p.last,
           (SELECT i.log_index FROM public.events AS i WHERE i.stream_id = p.post_id AND i.stream_version = 1) AS log_index
    FROM unnest($1::uuid[], $3::integer[], $4::integer[]) AS p (post_id, first, last)
) AS e
WHERE w.log_index = e.log_index
