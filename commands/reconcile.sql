-- Which keys of one source are on record. $1: idempotency keys, $2: source. One index probe for each key, whatever the
-- planner knows of the table.
SELECT k.event_id
FROM unnest($1::text[]) AS k (event_id)
CROSS JOIN LATERAL (
    SELECT FROM events e WHERE e.event_id = k.event_id AND e.event_source = $2 LIMIT 1
) AS e
