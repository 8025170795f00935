-- Novels that the public may see, by folded title. $1: one state, or NULL; $2: folded text that the title holds, or ''; $3: folded
-- name of the partner platform that owns them, NULL for whoever, '' for the host platform; $4: folded title to start after; $5: how many.
SELECT n.novel_id, n.slug, n.title, n.state, coalesce(i.name, ''), n.details, n.folded_title
FROM title_lookup n
LEFT JOIN integrations i ON i.integration_id = n.owner_id
WHERE n.folded_title > $4
  AND n.state IN ('approved', 'published') AND ($1::text IS NULL OR n.state = $1)
  AND ($2 = '' OR strpos(n.folded_title, $2) > 0)
  AND ($3::text IS NULL OR ($3 = '' AND n.owner_id IS NULL) OR ($3 <> '' AND lower(i.name) = lower($3)))
ORDER BY n.folded_title LIMIT $5
