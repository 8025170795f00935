-- Novels that a batch changed. $1: novels, sorted; $2: new states, '' where it stays; $5: members of details that changed.
UPDATE title_lookup t
SET state          = coalesce(nullif(c.state, ''), t.state),
    owner_id       = CASE WHEN c.to_host THEN NULL ELSE t.owner_id END,
    stream_version = c.stream_version,
    details        = t.details || c.patch::jsonb
FROM unnest($1::uuid[], $2::text[], $3::boolean[], $4::integer[], $5::text[])
     AS c (novel_id, state, to_host, stream_version, patch)
WHERE t.novel_id = c.novel_id AND t.stream_version < c.stream_version
