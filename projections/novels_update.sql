-- What a batch changed of novels. $1: novels, sorted; $2: version after the last of their events in the batch; a NULL leaves a column as
-- it is; $6: genres as JSON. $12, $14: versions of the updates and moderations in the batch, as '{2,3}': only those are counted that
-- the row does not know yet, since batches may overlap.
UPDATE novels AS n
SET author         = coalesce(c.author, n.author),
    synopsis       = coalesce(c.synopsis, n.synopsis),
    cover_url      = coalesce(c.cover_url, n.cover_url),
    genres         = CASE WHEN c.genres IS NULL THEN n.genres ELSE ARRAY(SELECT json_array_elements_text(c.genres::json)) END,
    language       = coalesce(c.language, n.language),
    reading_status = coalesce(c.reading_status, n.reading_status),
    state          = coalesce(c.state, n.state),
    owner_id       = CASE WHEN c.to_host THEN NULL ELSE n.owner_id END,
    updated_at     = coalesce(c.updated_at, n.updated_at),
    updates        = n.updates + (SELECT count(*) FROM unnest(c.updates::integer[]) AS v (version) WHERE v.version > n.stream_version),
    moderated_at   = coalesce(c.moderated_at, n.moderated_at),
    moderations    = n.moderations + (SELECT count(*) FROM unnest(c.moderations::integer[]) AS v (version) WHERE v.version > n.stream_version),
    stream_version = c.stream_version
FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::boolean[],
            $11::timestamptz[], $12::text[], $13::timestamptz[], $14::text[])
     AS c (novel_id, stream_version, author, synopsis, cover_url, genres, language, reading_status, state, to_host, updated_at, updates,
           moderated_at, moderations)
WHERE n.novel_id = c.novel_id AND n.stream_version < c.stream_version
