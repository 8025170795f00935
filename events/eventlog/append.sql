-- Appends events. $1: ordinals in decision order; the rows come sorted by (stream_id, stream_version), so that
-- writers that share streams wait for each other in one order and do not deadlock. The arrays are unnested in the select
-- list, row by row; as a table function they would be materialised first.
INSERT INTO events (position, stream_type, stream_id, stream_version, event_id, integration_id, event_source, event_type, data, personal, salt,
    batch_id, key_id, fingerprint, request_id, actor, correlation, causation, traceparent)
SELECT unnest($1::integer[]), unnest($2::text[]), unnest($3::uuid[]), unnest($4::integer[]), unnest($5::text[]), unnest($6::uuid[]),
       unnest($7::text[]), unnest($8::text[]), unnest($9::json[]), unnest($10::json[]), unnest($11::uuid[]),
       unnest($12::uuid[]), unnest($13::uuid[]), unnest($14::uuid[]), unnest($15::text[]), unnest($16::text[]), unnest($17::text[]),
       unnest($18::text[]), unnest($19::text[])
