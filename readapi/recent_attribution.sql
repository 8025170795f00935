-- Integration and author of a comment that is not yet in the read model. $1: integration; $2: author.
SELECT i.name, a.display_name, d.member_id, d.posts_hidden_until
FROM (SELECT $1::uuid AS integration_id, $2::uuid AS author_id) AS k
LEFT JOIN integrations i ON i.integration_id = k.integration_id
LEFT JOIN authors a ON a.author_id = k.author_id
LEFT JOIN author_decisions d ON d.author_id = k.author_id
