-- Public novels of one part of the identifiers. $1, $2: first and last identifier; $3: number of novels.
SELECT n.slug FROM title_lookup n
WHERE n.novel_id >= $1 AND n.novel_id <= $2 AND n.state IN ('approved', 'published')
ORDER BY n.novel_id LIMIT $3
