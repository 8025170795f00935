-- What the sessions $1 wait for, a row each. $2: those that have waited for one answer for seconds. $3: advisory locks that a poll waits
-- for. $4: all sessions of the command. $5: the lock of the log. Of other roles PostgreSQL shows only some columns.
WITH waits (pid, what) AS (
    SELECT a.pid, CASE
        WHEN a.wait_event = 'SyncRep' THEN 'the synchronous standby ' || current_setting('synchronous_standby_names')
            || CASE WHEN EXISTS (SELECT FROM pg_stat_replication AS r WHERE coalesce(r.sync_state, 'sync') IN ('sync', 'quorum')) THEN ''
                    ELSE ', which is not connected' END
        WHEN a.wait_event_type = 'Lock' THEN coalesce(
            (SELECT CASE
                 WHEN l.locktype = 'advisory' AND l.objsubid = 1 AND (l.classid::bigint << 32 | l.objid::bigint) = $5::bigint
                     THEN 'the append lock'
                 ELSE coalesce('a lock on ' || l.relation::regclass, 'a lock (' || l.locktype || ')') END
             FROM pg_locks AS l WHERE l.pid = a.pid AND NOT l.granted LIMIT 1), 'a lock')
        WHEN a.pid <> ALL ($2::bigint[]) THEN NULL
        WHEN a.state <> 'active' THEN 'an answer of the database server, which has answered: the connection is broken'
        ELSE 'a statement that runs since ' || to_char(a.query_start, 'YYYY-MM-DD HH24:MI:SS"Z"')
            || coalesce(' (' || a.wait_event || ')', '') || ': ' || left(regexp_replace(a.query, '\s+', ' ', 'g'), 80) END
    FROM pg_stat_activity AS a WHERE a.pid = ANY ($1::bigint[])
    UNION ALL
    SELECT 0, 'the lock of migrations' WHERE cardinality($3::bigint[]) > 0
), holders (waiting, pid) AS (
    SELECT w.pid, unnest(pg_blocking_pids(w.pid)) FROM waits AS w WHERE w.pid <> 0
    UNION
    SELECT 0, l.pid FROM pg_locks AS l
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.pid <> ALL ($4::bigint[])
        AND (l.classid::bigint << 32 | l.objid::bigint) = ANY ($3::bigint[])
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
), held (waiting, by) AS (
    SELECT h.waiting, string_agg(coalesce(format('process %s (%s, %s since %s)', a.pid,
               coalesce(nullif(a.application_name, ''), 'role ' || a.usename), coalesce(a.state, 'state hidden'),
               coalesce(to_char(coalesce(a.xact_start, a.state_change), 'YYYY-MM-DD HH24:MI:SS"Z"'), 'an unknown time')),
               'a prepared transaction'), ', ')
    FROM holders AS h LEFT JOIN pg_stat_activity AS a ON a.pid = h.pid GROUP BY h.waiting
)
SELECT DISTINCT w.what || coalesce(', held by ' || h.by, '')
FROM waits AS w LEFT JOIN held AS h ON h.waiting = w.pid
WHERE w.what IS NOT NULL AND (w.pid <> 0 OR h.by IS NOT NULL)
UNION ALL
SELECT 'an answer of the database server, which has no such session: the connection is broken'
WHERE EXISTS (SELECT FROM unnest($2::bigint[]) AS s (pid) WHERE NOT EXISTS (SELECT FROM pg_stat_activity AS a WHERE a.pid = s.pid))
