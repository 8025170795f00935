-- Adds the titles that are new in a batch. $1: folded titles, sorted.
INSERT INTO title_lookup (folded_title, novel_id, slug, title, state, owner_id, stream_version, details)
SELECT c.folded_title, c.novel_id, c.slug, c.title, c.state, c.owner_id, c.stream_version, c.details::jsonb
FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::uuid[], $7::integer[], $8::text[])
     AS c (folded_title, novel_id, slug, title, state, owner_id, stream_version, details)
