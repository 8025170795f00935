-- Statements that create the indexes of the live tables, $2, on the new ones in schema $1, except those of exclusion constraints.
-- Constraints are added afterwards, because keys use an index. Run it with search_path = pg_catalog.
SELECT -- The definition names the table with its schema, right after the name of the index.
       replace(pg_get_indexdef(i.indexrelid), format(' ON public.%I USING ', t.relname), format(' ON %I.%I USING ', $1::text, t.relname))
FROM pg_index AS i
JOIN pg_class AS t ON t.oid = i.indrelid
JOIN pg_class AS x ON x.oid = i.indexrelid
WHERE t.relnamespace = 'public'::regnamespace AND t.relname = ANY ($2::text[])
  AND NOT EXISTS (SELECT FROM pg_constraint AS c WHERE c.conindid = x.oid AND c.conrelid = t.oid AND c.contype = 'x')
ORDER BY t.relname, x.relname
