-- Every reference to a position (…transaction_id with …position beside it), except those of log and ledger, also in an unfinished
-- rebuild: its name, and the statement that translates it; NULL without …position. A position between two events becomes that of the
-- earlier one, so that the next event after it is the same. A position before the first event, such as 0/0, stays before it.
SELECT concat_ws('.', n.nspname, c.relname, a.attname),
       CASE WHEN b.attname IS NOT NULL THEN format($$UPDATE %1$I.%2$I AS t SET %3$I = '2', %4$I = coalesce((
           SELECT r.first_position + CASE WHEN r.transaction_id = t.%3$I THEN least(t.%4$I, r.events - 1) ELSE r.events - 1 END
           FROM log_rebase AS r WHERE r.transaction_id <= t.%3$I ORDER BY r.transaction_id DESC LIMIT 1), -1)
           WHERE t.%3$I > '2'$$, n.nspname, c.relname, a.attname, b.attname) END
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.atttypid = 'xid8'::regtype AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attribute AS b ON b.attrelid = c.oid AND b.atttypid = 'integer'::regtype AND b.attnum > 0 AND NOT b.attisdropped
    AND b.attname = regexp_replace(a.attname, 'transaction_id$', 'position')
WHERE c.relkind = 'r' AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\_%'
  AND c.oid NOT IN ('events'::regclass, 'ledger_seals'::regclass, 'ledger_state'::regclass, 'log_rebase'::regclass)
ORDER BY n.nspname, c.relname, a.attname
