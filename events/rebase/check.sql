-- Counts before the move: all events, events to move, sealed events; transactions whose positions are not 0, 1, 2, …; transactions
-- before events.Frozen; transactions at another log index in the ledger, or missing in log or ledger.
SELECT p.events, p.moving, l.tree_size, p.gaps, p.older, seals.misplaced
FROM ledger_state AS l
CROSS JOIN (
    SELECT coalesce(sum(events), 0)::bigint AS events, coalesce(sum(events) FILTER (WHERE transaction_id > '2'), 0)::bigint AS moving,
           count(*) FILTER (WHERE has_gaps) AS gaps, count(*) FILTER (WHERE transaction_id < '2') AS older
    FROM log_rebase
) AS p
CROSS JOIN LATERAL (
    SELECT count(*) AS misplaced
    FROM log_rebase AS r FULL JOIN ledger_seals AS s ON s.transaction_id = r.transaction_id
    WHERE r.transaction_id IS NULL
       OR s.transaction_id IS NULL AND r.first_position < l.tree_size
       OR s.first_log_index <> r.first_position OR s.event_count <> r.events
) AS seals
