-- Novels that the public may see, by folded title; at least one row, without a novel when there is none. $1: one state, or NULL; $2: folded
-- text that the title holds, or ''; $3: name of the partner platform that owns them, NULL for whoever, '' for the host platform; $4: folded
-- title to start after; $5: how many; $6: how many titles to look at, NULL for as many as it takes.
SELECT w.reached, n.novel_id, n.slug, n.title, n.state, coalesce(i.name, ''), n.details, n.folded_title
FROM (
    SELECT CASE WHEN $6::integer IS NOT NULL THEN
               (SELECT l.folded_title FROM title_lookup l WHERE l.folded_title > $4 ORDER BY l.folded_title OFFSET $6 - 1 LIMIT 1)
           END AS reached,
           (SELECT o.integration_id FROM integrations o WHERE lower(o.name) = lower($3)) AS owner_id
    OFFSET 0
) AS w
LEFT JOIN LATERAL (
    SELECT l.novel_id, l.slug, l.title, l.state, l.owner_id, l.details, l.folded_title
    FROM title_lookup l
    WHERE l.folded_title > $4 AND l.folded_title <= coalesce(w.reached, U&'\+10FFFF\+10FFFF\+10FFFF' COLLATE "C")
      AND l.state IN ('approved', 'published') AND ($1::text IS NULL OR l.state = $1)
      AND ($2 = '' OR strpos(l.folded_title, $2) > 0)
      AND ($3::text IS NULL OR CASE WHEN $3 = '' THEN l.owner_id IS NULL ELSE l.owner_id = w.owner_id END)
    ORDER BY l.folded_title LIMIT $5
) AS n ON true
LEFT JOIN integrations i ON i.integration_id = n.owner_id
ORDER BY n.folded_title
