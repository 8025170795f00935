-- A novel of any state; a title that was declined before there was a novel is none. $1: slug.
SELECT n.novel_id, n.slug, n.title, n.state, coalesce(i.name, ''), n.details
FROM title_lookup n
LEFT JOIN integrations i ON i.integration_id = n.owner_id
WHERE n.slug = $1 AND NOT (n.state = 'rejected' AND n.owner_id IS NULL)
