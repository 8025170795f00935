-- Public novels in one of three orders; one row without a novel if there are none.
--
-- $1, $2, $3  key of the novel to start after
-- $4          maximum number of novels to examine, NULL for no limit
-- $5          maximum number of novels
-- $6          state, NULL for any
-- $7          words in the title or the author
-- $8          name of the owning partner platform, NULL for any, '' for the host platform
-- $9          genre, '' for any
-- $10         language, folded, '' for any
-- $11         novels to choose from, if the statement names them
--
-- Go code completes the statement: :source is the ordered table s, :after the condition on the key of s, and :order the order of a
-- table. n has the novels of the page. m is the last novel to examine; it is only looked for if the page is not full.
WITH n AS MATERIALIZED (
    SELECT s.novel_id, s.k1, s.k2, l.slug, l.title, l.state, l.owner_id, l.details
    FROM (SELECT s.* FROM :source AS s WHERE :after ORDER BY :order LIMIT $4) AS s
    -- LATERAL and OFFSET 0: in the order of s, and no further than the page needs.
    CROSS JOIN LATERAL (
        SELECT FROM novels x
        WHERE x.novel_id = s.novel_id AND ($9 = '' OR $9 = ANY (x.genres)) AND ($10 = '' OR x.folded_language = $10)
          AND NOT EXISTS (SELECT FROM unnest($7::text[]) AS w WHERE strpos(x.search, w) = 0) OFFSET 0
    ) AS x
    CROSS JOIN LATERAL (SELECT l.* FROM title_lookup l WHERE l.novel_id = s.novel_id OFFSET 0) AS l
    WHERE l.state IN ('approved', 'published') AND ($6::text IS NULL OR l.state = $6)
      AND ($8::text IS NULL OR CASE WHEN $8 = '' THEN l.owner_id IS NULL
                                    ELSE l.owner_id = (SELECT o.integration_id FROM integrations o WHERE o.folded_name = $8) END)
    ORDER BY :order LIMIT $5
)
SELECT concat_ws(E'\n', m.novel_id, m.k1, m.k2), concat_ws(E'\n', n.novel_id, n.k1, n.k2), n.novel_id, n.slug, n.title, n.state, coalesce(i.name, ''), n.details, coalesce(v.posts, 0), v.last_post_at
FROM (SELECT) AS w
LEFT JOIN LATERAL (
    SELECT s.* FROM :source AS s
    WHERE $4::integer IS NOT NULL AND (SELECT count(*) FROM n) < $5 AND :after ORDER BY :order OFFSET $4 - 1 LIMIT 1
) AS m ON true
LEFT JOIN n ON true
LEFT JOIN integrations i ON i.integration_id = n.owner_id
LEFT JOIN threads t ON t.novel_id = n.novel_id
LEFT JOIN thread_activity v ON v.thread_id = t.thread_id
ORDER BY :last
