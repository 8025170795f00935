-- +goose Up

-- Lists of novels with a filter. A search for a part of a title has to go through all titles without it. It is written when a novel is
-- created or changed, not with comments. Without fastupdate, because the list of pending entries would slow down readers.
-- +goose StatementBegin
CREATE FUNCTION novel_facets(p_folded_title text, p_owner_id uuid, p_details jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ARRAY(SELECT DISTINCT substr(p_folded_title, i, 2) FROM generate_series(1, length(p_folded_title) - 1) AS i)
        || ARRAY(SELECT 'genre:' || jsonb_array_elements_text(p_details -> 'genres') WHERE jsonb_typeof(p_details -> 'genres') = 'array')
        || ('language:' || lower(coalesce(p_details ->> 'language', '')))
        || ('owner:' || coalesce(p_owner_id::text, ''))
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION novel_facets IS 'What a novel can be found by: pairs of adjacent characters of its folded title, genres, language and owner.';
CREATE INDEX title_lookup_facets ON title_lookup USING gin (novel_facets(folded_title, owner_id, details)) WITH (fastupdate = off);

-- A statement that calls this names title_lookup, too (see posts_of_authors). Only a bitmap scan uses the index.
-- +goose StatementBegin
CREATE FUNCTION novels_with_facets(p_facets text[], p_text text, p_most integer) RETURNS uuid[]
    LANGUAGE sql STABLE SET enable_seqscan = off SET enable_indexscan = off SET enable_bitmapscan = on SET jit = off AS $$
    SELECT CASE WHEN count(*) <= p_most THEN coalesce(array_agg(f.novel_id), '{}') END FROM (
        SELECT l.novel_id FROM title_lookup l
        WHERE novel_facets(l.folded_title, l.owner_id, l.details) @> p_facets AND strpos(l.folded_title, p_text) > 0
        LIMIT p_most + 1
    ) AS f
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION novels_with_facets IS 'The novels with all facets of novel_facets and a text in the folded title; NULL if there are more than p_most.';

-- +goose Down
DROP FUNCTION novels_with_facets;
DROP INDEX title_lookup_facets;
DROP FUNCTION novel_facets;
