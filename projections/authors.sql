-- Adds authors, and updates the names of known ones. The comment with the latest written_at gives the name, in whatever order comments
-- are applied. Table names are unqualified: search_path selects the live tables or those of a rebuild.
INSERT INTO authors (author_id, integration_id, external_uuid, display_name, display_name_at,
                     display_name_log_index, first_seen_at, changed_at)
SELECT a.author_id, a.integration_id, a.external_uuid, a.display_name, a.display_name_at,
       a.display_name_log_index, a.first_seen_at, a.changed_at
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::timestamptz[], $6::bigint[], $7::timestamptz[], $8::timestamptz[])
     AS a (author_id, integration_id, external_uuid, display_name, display_name_at,
           display_name_log_index, first_seen_at, changed_at)
ON CONFLICT (author_id) DO UPDATE SET
    display_name = EXCLUDED.display_name,
    display_name_at = EXCLUDED.display_name_at,
    display_name_log_index = EXCLUDED.display_name_log_index,
    changed_at = EXCLUDED.changed_at
WHERE (EXCLUDED.display_name_at, EXCLUDED.display_name_log_index) > (authors.display_name_at, authors.display_name_log_index)
