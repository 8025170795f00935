-- Statements that copy attributes of the live tables, $2, to the new ones in schema $1: owner, comments, grants, and settings of
-- autovacuum.
WITH tables AS (
    SELECT c.* FROM pg_class AS c WHERE c.relnamespace = 'public'::regnamespace AND c.relname = ANY ($2::text[])
)
SELECT statement FROM (
    SELECT 1 AS step, format('ALTER TABLE %I.%I OWNER TO %I', $1::text, t.relname, pg_get_userbyid(t.relowner)) AS statement FROM tables AS t
    UNION ALL
    SELECT 2, format('COMMENT ON TABLE %I.%I IS %L', $1::text, t.relname, obj_description(t.oid, 'pg_class'))
    FROM tables AS t WHERE obj_description(t.oid, 'pg_class') IS NOT NULL
    UNION ALL
    SELECT 2, format('COMMENT ON COLUMN %I.%I.%I IS %L', $1::text, t.relname, a.attname, col_description(t.oid, a.attnum))
    FROM tables AS t JOIN pg_attribute AS a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE col_description(t.oid, a.attnum) IS NOT NULL
    UNION ALL
    SELECT 2, format('COMMENT ON INDEX %I.%I IS %L', $1::text, x.relname, obj_description(x.oid, 'pg_class'))
    FROM tables AS t JOIN pg_index AS i ON i.indrelid = t.oid JOIN pg_class AS x ON x.oid = i.indexrelid
    WHERE obj_description(x.oid, 'pg_class') IS NOT NULL
    UNION ALL
    SELECT 2, format('COMMENT ON CONSTRAINT %I ON %I.%I IS %L', c.conname, $1::text, t.relname, obj_description(c.oid, 'pg_constraint'))
    FROM tables AS t JOIN pg_constraint AS c ON c.conrelid = t.oid WHERE obj_description(c.oid, 'pg_constraint') IS NOT NULL
    UNION ALL
    SELECT 3, format('GRANT %s ON %I.%I TO %s%s', g.privilege_type, $1::text, t.relname,
                     CASE g.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(g.grantee)) END,
                     CASE WHEN g.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
    FROM tables AS t CROSS JOIN LATERAL aclexplode(t.relacl) AS g WHERE g.grantee <> t.relowner
    UNION ALL
    SELECT 3, format('GRANT %s (%I) ON %I.%I TO %s%s', g.privilege_type, a.attname, $1::text, t.relname,
                     CASE g.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(g.grantee)) END,
                     CASE WHEN g.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
    FROM tables AS t JOIN pg_attribute AS a ON a.attrelid = t.oid CROSS JOIN LATERAL aclexplode(a.attacl) AS g WHERE g.grantee <> t.relowner
    UNION ALL
    SELECT 4, CASE WHEN o.setting IS NULL THEN format('ALTER TABLE %I.%I RESET (autovacuum_enabled)', $1::text, t.relname)
                   ELSE format('ALTER TABLE %I.%I SET (autovacuum_enabled = %L)', $1::text, t.relname, o.setting) END
    FROM tables AS t
    LEFT JOIN LATERAL (
        SELECT substr(option, strpos(option, '=') + 1) AS setting FROM unnest(t.reloptions) AS option WHERE option LIKE 'autovacuum\_enabled=%'
    ) AS o ON true
) AS s
ORDER BY step, statement
