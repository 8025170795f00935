-- The views on tables in schema public, and the statements that re-create them, on the tables that then have these names. Run it with
-- search_path = pg_catalog, so that definitions name schemas. $1: names of the tables. The newest view comes first, so a view comes
-- before the views that it reads. Readers lock views in this order, too, so no deadlock occurs.
SELECT format('%I.%I', n.nspname, v.relname) AS name,
       format('CREATE OR REPLACE VIEW %I.%I%s AS %s', n.nspname, v.relname,
              coalesce(' WITH (' || array_to_string(v.reloptions, ', ') || ')', ''), pg_get_viewdef(v.oid)) AS statement
FROM pg_class AS v
JOIN pg_namespace AS n ON n.oid = v.relnamespace
WHERE v.relkind = 'v' AND v.oid IN (
    SELECT w.ev_class
    FROM pg_class AS t
    JOIN pg_depend AS d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = t.oid AND d.classid = 'pg_rewrite'::regclass
    JOIN pg_rewrite AS w ON w.oid = d.objid
    WHERE t.relnamespace = 'public'::regnamespace AND t.relname = ANY ($1::text[]))
ORDER BY v.oid DESC
