-- Columns of a table in schema public, with its primary key. $1: name of the table. Run it with search_path = public.
SELECT a.attname, format_type(a.atttypid, a.atttypmod),
       coalesce(a.attnum = ANY ((i.indkey::smallint[])[0:i.indnkeyatts - 1]), false)
FROM pg_class AS c
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_index AS i ON i.indrelid = c.oid AND i.indisprimary
WHERE c.relnamespace = 'public'::regnamespace AND c.relname = $1
ORDER BY a.attnum
