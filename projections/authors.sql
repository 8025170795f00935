-- Adds authors, and updates the names of known ones. The comment with the latest written_at gives the name, in whatever order comments
-- are applied. Table names are unqualified: search_path selects the live tables or those of a rebuild.
INSERT INTO authors (author_id, integration_id, external_uuid, display_name, display_name_at,
                     display_name_log_index, first_seen_at, changed_at)
SELECT author_id(author_key((SELECT s.value FROM settings AS s WHERE s.name = 'author_secret'), a.integration_id), a.external_uuid),
       a.integration_id, a.external_uuid, a.display_name, a.display_name_at,
       a.display_name_log_index, a.first_seen_at, a.changed_at
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::timestamptz[], $5::bigint[], $6::timestamptz[], $7::timestamptz[])
     AS a (integration_id, external_uuid, display_name, display_name_at,
           display_name_log_index, first_seen_at, changed_at)
ORDER BY 1 -- neighbours in the index together
ON CONFLICT (author_id) DO UPDATE SET
    display_name = EXCLUDED.display_name,
    display_name_at = EXCLUDED.display_name_at,
    display_name_log_index = EXCLUDED.display_name_log_index,
    changed_at = EXCLUDED.changed_at
WHERE (EXCLUDED.display_name_at, EXCLUDED.display_name_log_index) > (authors.display_name_at, authors.display_name_log_index)
