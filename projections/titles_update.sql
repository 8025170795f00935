-- Applies the changes of novels in a batch. $1: novels, sorted; $2, $3: new titles and states, '' if unchanged; $4: owners of novels
-- created on a free title, NULL if unchanged; $5: whether the host platform becomes the owner; $7: changed members of details.
UPDATE title_lookup t
SET title          = coalesce(nullif(c.title, ''), t.title),
    state          = coalesce(nullif(c.state, ''), t.state),
    owner_id       = CASE WHEN c.to_host THEN NULL ELSE coalesce(c.owner_id, t.owner_id) END,
    stream_version = c.stream_version,
    details        = t.details || c.patch::jsonb
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[], $5::boolean[], $6::integer[], $7::text[])
     AS c (novel_id, title, state, owner_id, to_host, stream_version, patch)
WHERE t.novel_id = c.novel_id
