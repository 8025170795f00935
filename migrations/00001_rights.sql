-- Rights in this database. The role of analysts may read the schema analytics and nothing else; the views are in 00008_analytics.sql.

-- +goose Up
CREATE SCHEMA analytics;
COMMENT ON SCHEMA analytics IS 'Read models for analysts. Columns are only ever added.';

-- By default PUBLIC may execute every function. A view runs its functions with the rights of the user who queries it: such a function
-- needs GRANT EXECUTE TO PUBLIC.
ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON ROUTINES FROM PUBLIC;

-- Roles belong to the whole cluster, and other databases may be migrated at the same time. If this role lacks the right to create
-- roles, or to change the rights of PUBLIC, this step prints a notice and continues; docs/operators.md has the statements for a role
-- with that right.
-- +goose StatementBegin
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'novelgate_analytics') THEN
        BEGIN
            CREATE ROLE novelgate_analytics NOLOGIN;
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN NULL; -- the migration of another database was faster
            WHEN insufficient_privilege THEN
                RAISE NOTICE 'The role novelgate_analytics was not created: % may not create roles.', current_user
                    USING HINT = 'See "Analysts" in docs/operators.md.';
        END;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'novelgate_analytics') THEN
        GRANT USAGE ON SCHEMA analytics TO novelgate_analytics;
        ALTER DEFAULT PRIVILEGES IN SCHEMA analytics GRANT SELECT ON TABLES TO novelgate_analytics;
    END IF;

    IF (SELECT pg_has_role(n.nspowner, 'USAGE') FROM pg_namespace AS n WHERE n.nspname = 'public') THEN
        REVOKE CREATE ON SCHEMA public FROM PUBLIC;
    ELSE
        RAISE NOTICE 'Everybody may still create tables in schema public if its owner lets them: % does not own it.', current_user;
    END IF;
    IF (SELECT pg_has_role(d.datdba, 'USAGE') FROM pg_database AS d WHERE d.datname = current_database()) THEN
        EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
    ELSE
        RAISE NOTICE 'Everybody may still create temporary tables: % does not own the database.', current_user;
    END IF;
END
$$;
-- +goose StatementEnd

-- +goose Down
-- The role stays, because it belongs to the cluster. So does the revocation of CREATE and TEMPORARY.
ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON ROUTINES TO PUBLIC;
DROP SCHEMA analytics;
