-- A novel of any state. $1: slug.
SELECT n.novel_id, n.slug, n.title, n.state, coalesce(i.name, ''), n.details
FROM title_lookup n
LEFT JOIN integrations i ON i.integration_id = n.owner_id
WHERE n.slug = $1
