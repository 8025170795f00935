-- A novel in any state, or a free title, but no title that was barred before its first import. $1: slug.
SELECT n.novel_id, n.slug, n.title, n.state, coalesce(i.name, ''), n.details,
       coalesce(v.posts, 0), v.last_post_at
FROM title_lookup n
LEFT JOIN integrations i ON i.integration_id = n.owner_id
LEFT JOIN threads t ON t.novel_id = n.novel_id
LEFT JOIN thread_activity v ON v.thread_id = t.thread_id
WHERE n.slug = $1 AND NOT (n.state = 'rejected' AND n.owner_id IS NULL)
