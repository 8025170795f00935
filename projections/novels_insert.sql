-- Adds the novels that a batch created, in their first state. $1: rows, each as JSON, in the order of their keys. Table names are unqualified: search_path selects the live tables or those of a rebuild.
INSERT INTO novels (novel_id, title, slug, author, synopsis, cover_url, genres, language, reading_status, search,
                    folded_language, state, owner_id, created_by, created_at, stream_version)
SELECT c.novel_id, c.title, c.slug, c.author, c.synopsis, c.cover_url, ARRAY(SELECT json_array_elements_text(c.genres)), c.language,
       c.reading_status, c.title_search || E'\n' || c.author_search, c.folded_language, c.state, c.owner_id, c.owner_id, c.created_at, c.stream_version
FROM unnest($1::json[]) AS r (row)
CROSS JOIN LATERAL json_to_record(r.row)
     AS c (novel_id uuid, title text, slug text, author text, synopsis text, cover_url text, genres json, language text, reading_status text,
           title_search text, author_search text, folded_language text, state text, owner_id uuid, created_at timestamptz, stream_version integer)
