-- Statements that give the new tables in schema $1 the storage parameters of those in public, $2, and switch off autovacuum, which
-- would hold locks that the switch needs.
SELECT format('ALTER TABLE %I.%I SET (%s)', $1::text, c.relname, concat_ws(', ', 'autovacuum_enabled = false', o.list))
FROM pg_class AS c
LEFT JOIN pg_class AS toast ON toast.oid = c.reltoastrelid
CROSS JOIN LATERAL (
    SELECT string_agg(format('%s = %L', p.prefix || split_part(p.option, '=', 1), substr(p.option, strpos(p.option, '=') + 1)), ', ') AS list
    FROM (
        SELECT '' AS prefix, unnest(c.reloptions) AS option
        UNION ALL SELECT 'toast.', unnest(toast.reloptions)
    ) AS p
    WHERE p.option NOT LIKE 'autovacuum\_enabled=%'
) AS o
WHERE c.relnamespace = 'public'::regnamespace AND c.relname = ANY ($2::text[])
ORDER BY c.relname
