-- State of the ledger and its newest checkpoint. $1: maximum number of unsealed events to count.
SELECT s.tree_size, s.root_hash, s.transaction_id, s.position, s.sealed_at, s.error, lag.events, lag.seconds,
       o.origin, o.signer::text, c.tree_size, c.signed_at, greatest(extract(epoch FROM statement_timestamp() - c.signed_at), 0)::double precision, c.note
FROM ledger_state AS s
CROSS JOIN LATERAL projection_lag(s.transaction_id, s.position, $1) AS lag
LEFT JOIN LATERAL (SELECT origin, signer FROM ledger_origins ORDER BY ordinal DESC LIMIT 1) AS o ON true
LEFT JOIN LATERAL (
    SELECT tree_size, signed_at, note FROM ledger_checkpoints WHERE origin = o.origin ORDER BY tree_size DESC LIMIT 1
) AS c ON true
