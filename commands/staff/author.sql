-- An author with comments, staff decisions or both. $1: author.
SELECT k.author_id, coalesce(d.integration_id, a.integration_id), coalesce(a.external_uuid, d.external_uuid, ''), a.display_name,
       d.member_id, coalesce(d.blocked, false),
       d.posts_hidden_until IS NOT NULL, d.posts_hidden_until, a.first_seen_at
FROM (SELECT $1::uuid AS author_id) AS k
LEFT JOIN authors a ON a.author_id = k.author_id
LEFT JOIN author_decisions d ON d.author_id = k.author_id
WHERE a.author_id IS NOT NULL OR d.author_id IS NOT NULL
