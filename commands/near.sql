-- Public titles next to given titles in the order of an index: they share the longest beginnings or endings with them. $1: folded
-- titles, the requested one first; $2: for each, the prefix that its neighbours must have; $3: maximum number of titles on each side.
-- Neighbours by ending are those of the requested title. The LIMITs are inside, so that no more rows are read. The index
-- title_lookup_reversed has the last 64 characters of each title in reverse.
SELECT DISTINCT n.folded_title, n.title
FROM (
    SELECT near_start.folded_title, near_start.title, near_start.state
    FROM unnest($1::text[], $2::text[]) AS k (folded_title, prefix)
    CROSS JOIN LATERAL (
        (SELECT t.folded_title, t.title, t.state FROM title_lookup t
         WHERE t.folded_title > k.folded_title COLLATE "C" AND t.folded_title < (k.prefix || U&'\+10FFFF') COLLATE "C"
         ORDER BY t.folded_title LIMIT $3)
        UNION ALL
        (SELECT t.folded_title, t.title, t.state FROM title_lookup t
         WHERE t.folded_title <= k.folded_title COLLATE "C" AND t.folded_title >= k.prefix COLLATE "C"
         ORDER BY t.folded_title DESC LIMIT $3)
    ) AS near_start
    UNION ALL
    SELECT near_end.folded_title, near_end.title, near_end.state
    FROM (SELECT reverse(right(($1::text[])[1], 64)) AS reversed, right(($1::text[])[1], 1) AS suffix) AS k
    CROSS JOIN LATERAL (
        (SELECT t.folded_title, t.title, t.state FROM title_lookup t
         WHERE reverse(right(t.folded_title, 64)) COLLATE "C" > k.reversed COLLATE "C"
           AND reverse(right(t.folded_title, 64)) COLLATE "C" < (k.suffix || U&'\+10FFFF') COLLATE "C"
         ORDER BY reverse(right(t.folded_title, 64)) COLLATE "C" LIMIT $3)
        UNION ALL
        (SELECT t.folded_title, t.title, t.state FROM title_lookup t
         WHERE reverse(right(t.folded_title, 64)) COLLATE "C" <= k.reversed COLLATE "C"
           AND reverse(right(t.folded_title, 64)) COLLATE "C" >= k.suffix COLLATE "C"
         ORDER BY reverse(right(t.folded_title, 64)) COLLATE "C" DESC LIMIT $3)
    ) AS near_end
) AS n
WHERE n.state IN ('approved', 'published')
LIMIT 200
