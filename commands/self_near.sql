-- Public titles that stand near given ones in the order of the index: the nearer, the longer the beginning that they
-- share. $1: folded titles; $2: the first characters that are shared at least, pairwise; $3: how many on each side.
-- The limits are inside, so that no more rows than those are ever read.
SELECT DISTINCT n.folded_title, n.title
FROM unnest($1::text[], $2::text[]) AS k (folded_title, prefix)
CROSS JOIN LATERAL (
    (SELECT t.folded_title, t.title, t.state FROM title_lookup t
     WHERE t.folded_title > k.folded_title COLLATE "C" AND t.folded_title < (k.prefix || U&'\+10FFFF') COLLATE "C"
     ORDER BY t.folded_title LIMIT $3)
    UNION ALL
    (SELECT t.folded_title, t.title, t.state FROM title_lookup t
     WHERE t.folded_title <= k.folded_title COLLATE "C" AND t.folded_title >= k.prefix COLLATE "C"
     ORDER BY t.folded_title DESC LIMIT $3)
) AS n
WHERE n.state IN ('approved', 'published')
LIMIT 200
