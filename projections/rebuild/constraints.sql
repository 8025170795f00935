-- Statements that add the constraints of the live tables, $2, to the new ones in schema $1. Keys use their existing indexes.
-- Run it with search_path = pg_catalog.
SELECT format('ALTER TABLE %I.%I ADD CONSTRAINT %I %s', $1::text, t.relname, c.conname,
              CASE WHEN c.contype IN ('p', 'u') THEN
                  format('%s USING INDEX %I%s%s', CASE c.contype WHEN 'p' THEN 'PRIMARY KEY' ELSE 'UNIQUE' END, x.relname,
                         CASE WHEN c.condeferrable THEN ' DEFERRABLE' ELSE '' END, CASE WHEN c.condeferred THEN ' INITIALLY DEFERRED' ELSE '' END)
              ELSE pg_get_constraintdef(c.oid) END)
FROM pg_constraint AS c
JOIN pg_class AS t ON t.oid = c.conrelid
LEFT JOIN pg_class AS x ON x.oid = c.conindid
WHERE t.relnamespace = 'public'::regnamespace AND t.relname = ANY ($2::text[]) AND c.contype IN ('p', 'u', 'x', 'f')
ORDER BY t.relname, c.contype = 'f', c.conname
