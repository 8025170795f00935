-- Which deliveries are on record. $1, $2: event ids and sources, pairwise.
SELECT e.event_id, e.event_source, e.stream_id, e.event_type, e.data, e.salt, e.metadata
FROM unnest($1::text[], $2::text[]) AS k (event_id, event_source)
JOIN events e ON e.event_id = k.event_id AND e.event_source = k.event_source
