-- Adds reports that wait for a decision. Those of hidden and of erased comments do not. $1: posts, sorted; $2 to $7: readers by reason;
-- $8, $9: when the first and the last one were received. Table names are unqualified: search_path selects the live tables or those of a
-- rebuild.
INSERT INTO reported_posts AS r (post_id, author_id, log_index, spam, abuse, spoiler, illegal, copyright, other, first_reported_at, last_reported_at)
SELECT n.post_id, p.author_id, p.log_index, n.spam, n.abuse, n.spoiler, n.illegal, n.copyright, n.other, n.first_reported_at, n.last_reported_at
FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::timestamptz[],
            $9::timestamptz[])
     AS n (post_id, spam, abuse, spoiler, illegal, copyright, other, first_reported_at, last_reported_at)
JOIN posts p ON p.post_id = n.post_id AND NOT p.hidden AND p.author_id IS NOT NULL
ON CONFLICT (post_id) DO UPDATE SET
    spam = r.spam + EXCLUDED.spam, abuse = r.abuse + EXCLUDED.abuse, spoiler = r.spoiler + EXCLUDED.spoiler,
    illegal = r.illegal + EXCLUDED.illegal, copyright = r.copyright + EXCLUDED.copyright, other = r.other + EXCLUDED.other,
    last_reported_at = EXCLUDED.last_reported_at
