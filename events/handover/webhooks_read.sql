-- Webhooks with their pending changes, for the successor. Positions are log indexes, -1 before the first event. The lease is left out.
SELECT coalesce(jsonb_agg(to_jsonb(w) - '{transaction_id,position,holder,leased_until}'::text[] || jsonb_build_object(
    'log_index', coalesce(place.log_index, -1),
    'attempts', (
        SELECT coalesce(jsonb_agg(to_jsonb(a) - '{transaction_id,position}'::text[] || jsonb_build_object(
            'log_index', s.first_log_index + a.position)), '[]')
        FROM webhook_attempts AS a JOIN ledger_seals AS s USING (transaction_id)
        WHERE a.webhook_id = w.webhook_id AND a.next_at IS NOT NULL)
) ORDER BY w.webhook_id), '[]')::text
FROM webhooks AS w
LEFT JOIN LATERAL (
    SELECT CASE WHEN s.transaction_id = w.transaction_id THEN s.first_log_index + least(w.position, s.event_count - 1)
                ELSE s.first_log_index + s.event_count - 1 END AS log_index
    FROM ledger_seals AS s WHERE s.transaction_id <= w.transaction_id ORDER BY s.transaction_id DESC LIMIT 1
) AS place ON true
