-- A page of the authors of an integration with staff decisions. $1: integration; $2: identifier of the previous page's last author;
-- $3, $4: linked, blocked, NULL for either; $5: page size. The inner query selects the rows of the page before the joins.
SELECT d.author_id, d.integration_id, d.external_uuid, a.display_name, d.member_id, d.blocked, d.posts_hidden_until IS NOT NULL,
       d.posts_hidden_until, a.first_seen_at
FROM (
    SELECT author_id, integration_id, external_uuid, member_id, blocked, posts_hidden_until
    FROM author_decisions
    WHERE integration_id = $1::uuid AND external_uuid COLLATE "C" > $2::text
      AND ($3::boolean IS NULL OR (member_id IS NOT NULL) = $3) AND ($4::boolean IS NULL OR blocked = $4)
    ORDER BY external_uuid COLLATE "C" LIMIT $5
) AS d
LEFT JOIN authors a ON a.author_id = d.author_id
ORDER BY d.external_uuid COLLATE "C"
