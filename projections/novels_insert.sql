-- Novels that a batch created, as they were created. $1: novels, sorted; $7: genres as JSON, since arrays in an array would all need
-- the same length. Redelivery finds the novel and inserts nothing. Table names are unqualified: search_path decides which
-- generation is written.
INSERT INTO novels (novel_id, title, slug, author, synopsis, cover_url, genres, language, reading_status, state, owner_id, created_by,
                    created_at, stream_version)
SELECT c.novel_id, c.title, c.slug, c.author, c.synopsis, c.cover_url, ARRAY(SELECT json_array_elements_text(c.genres::json)), c.language,
       c.reading_status, c.state, c.owner_id, c.owner_id, c.created_at, c.stream_version
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
            $11::uuid[], $12::timestamptz[], $13::integer[])
     AS c (novel_id, title, slug, author, synopsis, cover_url, genres, language, reading_status, state, owner_id, created_at, stream_version)
ON CONFLICT (novel_id) DO NOTHING
