-- The indexes of the live tables, $2, that are missing or invalid on the new ones in schema $1. Constraints are added after them,
-- because some need an index. Run it with search_path = pg_catalog.
SELECT t.relname, x.relname AS index,
       -- The definition names the table with its schema, right after the name of the index.
       replace(pg_get_indexdef(i.indexrelid), format(' ON public.%I USING ', t.relname), format(' ON %I.%I USING ', $1::text, t.relname)) AS definition,
       EXISTS (SELECT FROM pg_class AS built WHERE built.relnamespace = to_regnamespace(quote_ident($1)) AND built.relname = x.relname) AS remains,
       EXISTS (
           SELECT FROM pg_class AS built JOIN pg_index AS b ON b.indexrelid = built.oid AND b.indisvalid
           WHERE built.relnamespace = to_regnamespace(quote_ident($1)) AND built.relname = x.relname) AS valid,
       coalesce(c.contype = 'x', false) AS exclusion
FROM pg_index AS i
JOIN pg_class AS t ON t.oid = i.indrelid
JOIN pg_class AS x ON x.oid = i.indexrelid
LEFT JOIN pg_constraint AS c ON c.conindid = x.oid AND c.conrelid = t.oid AND c.contype IN ('p', 'u', 'x')
WHERE t.relnamespace = 'public'::regnamespace AND t.relname = ANY ($2::text[])
ORDER BY t.relname, x.relname
