-- Appends events. $1: ordinals in decision order; the rows come sorted by (stream_id, stream_version), so that
-- writers that share streams wait for each other in one order and do not deadlock.
INSERT INTO events (position, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, personal, salt, metadata)
SELECT e.position, e.stream_type, e.stream_id, e.stream_version, e.event_id, e.event_source, e.event_type,
       e.data::json, e.personal::json, e.salt, e.metadata::json
FROM unnest($1::integer[], $2::text[], $3::uuid[], $4::integer[], $5::text[], $6::text[], $7::text[],
            $8::text[], $9::text[], $10::uuid[], $11::text[])
     AS e (position, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, personal, salt, metadata)
