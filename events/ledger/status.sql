-- State of the ledger and its newest checkpoint.
SELECT s.tree_size, s.root_hash, s.sealed_at, s.error, s.signing_error, s.verified_at,
       greatest((SELECT coalesce(max(log_index) + 1, 0) FROM events) - s.tree_size, 0),
       coalesce(greatest(extract(epoch FROM statement_timestamp() - oldest.recorded_at), 0), 0)::double precision,
       o.origin, o.signer::text, c.tree_size, c.signed_at, greatest(extract(epoch FROM statement_timestamp() - c.signed_at), 0)::double precision, c.note
FROM ledger_state AS s
LEFT JOIN LATERAL (
    SELECT recorded_at FROM events WHERE log_index >= s.tree_size ORDER BY log_index LIMIT 1
) AS oldest ON true
LEFT JOIN LATERAL (SELECT origin, signer FROM ledger_origins ORDER BY ordinal DESC LIMIT 1) AS o ON true
LEFT JOIN LATERAL (
    SELECT tree_size, signed_at, note FROM ledger_checkpoints WHERE origin = o.origin ORDER BY tree_size DESC LIMIT 1
) AS c ON true
