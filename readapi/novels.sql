-- Public novels in one of three orders; one row without a novel if there are none.
--
-- $1       state, NULL for any
-- $2       folded text in the title, '' for any
-- $3       name of the owning partner platform, NULL for any, '' for the host platform
-- $4       genre, '' for any
-- $5       language, '' for any
-- $6       maximum number of novels
-- $7       maximum number of novels to examine, NULL for no limit
-- from $8  key of the novel to start after
--
-- Go code completes the statement:
-- :source  the ordered table s
-- :key     the sort key of s
-- :after   the condition on the key
-- :folded  the folded title, from s if s has it, because then PostgreSQL examines it before the join
-- :last    the sort key of n
--
-- n has the novels of the page. m is the last novel to examine; it is only looked for if the page is not full.
WITH n AS MATERIALIZED (
    SELECT s.folded_title, s.placed, s.posted_at, s.created_at, l.novel_id, l.slug, l.title, l.state, l.owner_id, l.details
    FROM (SELECT s.* FROM :source s WHERE :after ORDER BY :key LIMIT $7) AS s
    JOIN title_lookup l ON l.novel_id = s.novel_id
    WHERE l.state IN ('approved', 'published') AND ($1::text IS NULL OR l.state = $1)
      AND ($2 = '' OR strpos(:folded, $2) > 0)
      AND ($3::text IS NULL OR CASE WHEN $3 = '' THEN l.owner_id IS NULL
                                    ELSE l.owner_id = (SELECT o.integration_id FROM integrations o WHERE lower(o.name) = lower($3)) END)
      AND ($4 = '' OR l.details -> 'genres' ? $4)
      AND ($5 = '' OR lower(l.details ->> 'language') = lower($5))
    ORDER BY :key LIMIT $6
)
SELECT m.folded_title, m.posted_at, m.created_at, m.novel_id, n.folded_title, n.posted_at, n.created_at, n.novel_id,
       n.slug, n.title, n.state, coalesce(i.name, ''), n.details, coalesce(v.posts, 0), v.last_post_at
FROM (SELECT) AS w
LEFT JOIN LATERAL (
    SELECT s.* FROM :source s
    WHERE $7::integer IS NOT NULL AND (SELECT count(*) FROM n) < $6 AND :after ORDER BY :key OFFSET $7 - 1 LIMIT 1
) AS m ON true
LEFT JOIN n ON true
LEFT JOIN integrations i ON i.integration_id = n.owner_id
LEFT JOIN threads t ON t.novel_id = n.novel_id
LEFT JOIN thread_activity v ON v.thread_id = t.thread_id
ORDER BY :last
