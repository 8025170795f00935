-- Columns that name a place in the log, outside of log and ledger: …transaction_id with …position beside it.
SELECT n.nspname, c.relname, a.attname, b.attname
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.atttypid = 'xid8'::regtype AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attribute AS b ON b.attrelid = c.oid AND b.atttypid = 'integer'::regtype AND b.attnum > 0 AND NOT b.attisdropped
    AND b.attname = regexp_replace(a.attname, 'transaction_id$', 'position')
WHERE c.relkind = 'r' AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\_%'
  AND c.oid NOT IN ('events'::regclass, 'ledger_seals'::regclass, 'ledger_state'::regclass, 'log_rebase'::regclass)
ORDER BY n.nspname, c.relname, a.attname
