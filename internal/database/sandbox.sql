-- Empties the database of a sandbox, except for its integrations, staff users and auditors with their keys.
DO $$
DECLARE
    guard record;
BEGIN
    IF NOT EXISTS (SELECT FROM settings WHERE name = 'sandbox' AND value = 'true') THEN
        RAISE EXCEPTION 'this database is not marked as that of a sandbox' USING ERRCODE = 'NG002';
    END IF;
    IF EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
            AND application_name LIKE 'novelgate%') THEN
        RAISE EXCEPTION 'the sandbox is in use' USING ERRCODE = 'NG003';
    END IF;

    CREATE TEMPORARY TABLE kept ON COMMIT DROP AS
        SELECT * FROM events WHERE stream_type IN ('integration', 'person');
    UPDATE kept SET log_index = numbered.new FROM (SELECT log_index, row_number() OVER (ORDER BY log_index) - 1 AS new FROM kept) AS numbered
        WHERE kept.log_index = numbered.log_index;
    -- Tables that a rebuild has not finished.
    FOR guard IN SELECT quote_ident(name || '_' || build) AS schema FROM projection_rebuilds LOOP
        EXECUTE 'DROP SCHEMA IF EXISTS ' || guard.schema || ' CASCADE';
    END LOOP;

    -- The triggers that refuse TRUNCATE come back in the same state, within this transaction.
    CREATE TEMPORARY TABLE guards ON COMMIT DROP AS
        SELECT tgrelid::regclass AS tab, quote_ident(tgname) AS trigger, CASE tgenabled WHEN 'A' THEN 'ALWAYS ' ELSE '' END AS always
        FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 32 <> 0 AND tgrelid IN (
            SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace);
    FOR guard IN SELECT * FROM guards LOOP
        EXECUTE format('ALTER TABLE %s DISABLE TRIGGER %s', guard.tab, guard.trigger);
    END LOOP;
    EXECUTE (SELECT 'TRUNCATE ' || string_agg(oid::regclass::text, ', ') || ' RESTART IDENTITY' FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname NOT IN (
            'goose_db_version', 'settings', 'integrations', 'api_keys', 'person_keys', 'api_key_use', 'projections'));
    FOR guard IN SELECT * FROM guards LOOP
        EXECUTE format('ALTER TABLE %s ENABLE %sTRIGGER %s', guard.tab, guard.always, guard.trigger);
    END LOOP;

    INSERT INTO events SELECT * FROM kept ORDER BY log_index;
    UPDATE settings SET value = gen_random_uuid() WHERE name = 'log_id'; -- it is another log: the ledger begins a new origin
    UPDATE projections SET position = 0, state = 'running', error = NULL, failed_log_index = NULL, unknown_type = NULL;
    INSERT INTO ledger_state (tree_size, root_hash, sealed_at) VALUES (0, sha256(''), statement_timestamp());
END
$$
