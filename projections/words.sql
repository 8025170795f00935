-- Adds the words of comments. $1: posts; $2: log indexes; $3: partners; $4: their identifiers of the authors; $5: words, of all comments
-- in turn; $6, $7: the first and the last of each comment, counted from 1. Table names are unqualified: search_path selects the live table
-- or that of a rebuild.
INSERT INTO post_words (post_id, log_index, words)
SELECT c.post_id, c.log_index,
       author_word(author_id(author_key((SELECT s.value FROM settings AS s WHERE s.name = 'author_secret'), c.integration_id), c.external_uuid))
           || ($5::bigint[])[c.first:c.last]
FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::text[], $6::integer[], $7::integer[])
     AS c (post_id, log_index, integration_id, external_uuid, first, last)
