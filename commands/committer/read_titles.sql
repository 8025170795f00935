-- Novels and threads of titles. $1: folded titles; $2: whether to return the details.
SELECT t.folded_title, t.novel_id, t.slug, t.title, t.state, t.owner_id, t.stream_version,
       CASE WHEN k.details THEN t.details END, th.thread_id
FROM unnest($1::text[], $2::boolean[]) AS k (folded_title, details)
JOIN title_lookup t ON t.folded_title = k.folded_title COLLATE "C"
LEFT JOIN threads th ON th.novel_id = t.novel_id
