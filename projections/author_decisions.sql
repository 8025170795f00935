-- Applies one event with a decision about an author. $1: author; $4, $5, $6: member ('' for none), blocked, posts hidden until, each
-- NULL if unchanged; $7: posts are no longer hidden; $8: the identity was erased.
INSERT INTO author_decisions AS d (author_id, integration_id, external_uuid, member_id, blocked, posts_hidden_until)
VALUES ($1::uuid, $2::uuid, $3::text, nullif($4::text, ''), coalesce($5::boolean, false), $6::timestamptz)
ON CONFLICT (author_id) DO UPDATE SET
    external_uuid      = CASE WHEN $8::boolean THEN NULL ELSE coalesce(EXCLUDED.external_uuid, d.external_uuid) END,
    member_id          = CASE WHEN $4 IS NULL THEN d.member_id ELSE EXCLUDED.member_id END,
    blocked            = coalesce($5, d.blocked),
    posts_hidden_until = CASE WHEN $7::boolean THEN NULL ELSE coalesce($6, d.posts_hidden_until) END
