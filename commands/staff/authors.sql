-- A page of the authors of an integration with comments or staff decisions, by the partner's identifier. $1: integration; $2:
-- identifier of the previous page's last author; $3, $4: linked, blocked, NULL for either; $5: page size; $6: with which the identifier
-- begins: it has at most 255 characters, of which U+10FFFF is the last. The LIMITs are inside, so that no more rows are sorted. Few
-- authors have decisions: the others are not read when only those are wanted.
SELECT author_id, integration_id, external_uuid, display_name, member_id, blocked, posts_hidden_until IS NOT NULL, posts_hidden_until,
       first_seen_at
FROM (
    (SELECT a.author_id, a.integration_id, a.external_uuid, a.display_name, NULL AS member_id, coalesce(d.blocked, false) AS blocked,
            NULL::timestamptz AS posts_hidden_until, a.first_seen_at
     FROM authors a
     LEFT JOIN author_decisions d ON d.author_id = a.author_id
     WHERE a.integration_id = $1::uuid AND a.external_uuid COLLATE "C" > $2::text
       AND a.external_uuid COLLATE "C" BETWEEN $6::text AND $6 || repeat(chr(1114111), 255)
       AND d.external_uuid IS NULL -- no decision since an erasure
       AND $3::boolean IS NOT TRUE AND $4::boolean IS NOT TRUE
     ORDER BY a.external_uuid COLLATE "C" LIMIT $5)
    UNION ALL
    (SELECT d.author_id, d.integration_id, d.external_uuid, a.display_name, d.member_id, d.blocked, d.posts_hidden_until, a.first_seen_at
     FROM author_decisions d
     LEFT JOIN authors a ON a.author_id = d.author_id
     WHERE d.integration_id = $1 AND d.external_uuid COLLATE "C" > $2
       AND d.external_uuid COLLATE "C" BETWEEN $6 AND $6 || repeat(chr(1114111), 255)
       AND ($3 IS NULL OR (d.member_id IS NOT NULL) = $3) AND ($4 IS NULL OR d.blocked = $4)
     ORDER BY d.external_uuid COLLATE "C" LIMIT $5)
) AS both_kinds
ORDER BY external_uuid COLLATE "C" LIMIT $5
