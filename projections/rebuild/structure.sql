-- Digest of the structure of tables in schema public: columns, indexes, constraints. $1: names of the tables.
WITH tables AS (
    SELECT c.oid, c.relname FROM pg_class AS c WHERE c.relnamespace = 'public'::regnamespace AND c.relname = ANY ($1::text[])
)
SELECT (SELECT count(*) FROM tables) AS found, md5(string_agg(line, E'\n' ORDER BY line COLLATE "C")) AS digest
FROM (
    SELECT format('column %s.%s %s %s %s %s %s', t.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
                  a.attidentity, a.attgenerated, pg_get_expr(d.adbin, d.adrelid)) AS line
    FROM tables AS t
    JOIN pg_attribute AS a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    UNION ALL
    SELECT pg_get_indexdef(i.indexrelid) FROM tables AS t JOIN pg_index AS i ON i.indrelid = t.oid
    UNION ALL
    SELECT format('constraint %s.%s %s', t.relname, c.conname, pg_get_constraintdef(c.oid))
    FROM tables AS t JOIN pg_constraint AS c ON c.conrelid = t.oid
) AS lines
