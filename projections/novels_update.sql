-- Applies the changes of novels in a batch. $1: rows, each as JSON, in the order of their keys; null leaves a column unchanged;
-- updates and moderations are counts. $1 is an array of JSON because the planner estimates ten rows for an array, which leads to index probes, and a hundred for a JSON document.
UPDATE novels AS n
SET author         = coalesce(c.author, n.author),
    synopsis       = coalesce(c.synopsis, n.synopsis),
    cover_url      = coalesce(c.cover_url, n.cover_url),
    genres         = CASE WHEN c.genres IS NULL THEN n.genres ELSE ARRAY(SELECT json_array_elements_text(c.genres)) END,
    language       = coalesce(c.language, n.language),
    reading_status = coalesce(c.reading_status, n.reading_status),
    search         = coalesce(split_part(n.search, E'\n', 1) || E'\n' || c.author_search, n.search),
    folded_language = coalesce(c.folded_language, n.folded_language),
    state          = coalesce(c.state, n.state),
    owner_id       = CASE WHEN c.to_host THEN NULL ELSE n.owner_id END,
    updated_at     = coalesce(c.updated_at, n.updated_at),
    updates        = n.updates + c.updates,
    moderated_at   = coalesce(c.moderated_at, n.moderated_at),
    moderations    = n.moderations + c.moderations,
    stream_version = c.stream_version
FROM unnest($1::json[]) AS r (row)
CROSS JOIN LATERAL json_to_record(r.row)
     AS c (novel_id uuid, author text, synopsis text, cover_url text, genres json, language text, reading_status text, author_search text,
           folded_language text, state text,
           to_host boolean, updated_at timestamptz, updates integer, moderated_at timestamptz, moderations integer, stream_version integer)
WHERE n.novel_id = c.novel_id
