-- The columns of all views of the schema analytics, view by view, in their order.
SELECT c.relname, coalesce(obj_description(c.oid, 'pg_class'), ''), a.attname, format_type(a.atttypid, a.atttypmod), a.atttypid,
       coalesce(col_description(c.oid, a.attnum), '')
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace AND n.nspname = 'analytics'
JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind IN ('v', 'm')
ORDER BY c.relname, a.attnum
