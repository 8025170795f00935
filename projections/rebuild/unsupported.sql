-- Objects that depend on tables in schema public and would not move to the new ones. $1: names of the tables.
WITH tables AS (
    SELECT c.oid FROM pg_class AS c WHERE c.relnamespace = 'public'::regnamespace AND c.relname = ANY ($1::text[])
)
SELECT pg_describe_object(o.class, o.oid, 0) FROM (
    SELECT 'pg_trigger'::regclass AS class, g.oid FROM pg_trigger AS g WHERE g.tgrelid IN (SELECT oid FROM tables) AND NOT g.tgisinternal
    UNION ALL SELECT 'pg_policy'::regclass, p.oid FROM pg_policy AS p WHERE p.polrelid IN (SELECT oid FROM tables)
    UNION ALL SELECT 'pg_publication_rel'::regclass, p.oid FROM pg_publication_rel AS p WHERE p.prrelid IN (SELECT oid FROM tables)
    UNION ALL
    SELECT 'pg_constraint'::regclass, c.oid FROM pg_constraint AS c
    WHERE c.contype = 'f' AND c.confrelid IN (SELECT oid FROM tables) AND c.conrelid NOT IN (SELECT oid FROM tables)
    UNION ALL SELECT 'pg_class'::regclass, i.inhrelid FROM pg_inherits AS i WHERE i.inhparent IN (SELECT oid FROM tables)
    UNION ALL
    SELECT 'pg_class'::regclass, v.oid FROM pg_depend AS d
    JOIN pg_rewrite AS w ON d.classid = 'pg_rewrite'::regclass AND w.oid = d.objid
    JOIN pg_class AS v ON v.oid = w.ev_class AND v.relkind <> 'v'
    WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid IN (SELECT oid FROM tables)
    UNION ALL
    SELECT d.classid, d.objid FROM pg_depend AS d
    WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid IN (SELECT oid FROM tables) AND d.classid = 'pg_proc'::regclass
) AS o
ORDER BY 1
