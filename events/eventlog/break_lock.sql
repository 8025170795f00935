-- Ends the session that holds the lock of the log while its client is stopped, and returns how many sessions were ended. One statement, so
-- that a session that has gone on meanwhile is not ended. $1: number of the lock, $2: least wait for the client, in seconds.
SELECT count(*) FILTER (WHERE pg_terminate_backend(a.pid))
FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (l.classid::bigint << 32 | l.objid::bigint) = $1
    AND a.state_change < clock_timestamp() - make_interval(secs => $2)
    AND (a.state LIKE 'idle in transaction%' OR a.state = 'active' AND a.wait_event = 'ClientRead')
