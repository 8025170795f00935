-- The event that a delivery left. $1: idempotency key, $2: source.
SELECT stream_id, event_type, data, recorded_at FROM events WHERE event_id = $1 AND event_source = $2
