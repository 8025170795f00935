-- Appends events. $1: ordinals in decision order; the rows come sorted by (stream_id, stream_version), so that
-- writers that share streams wait for each other in one order and do not deadlock. The arrays are unnested in the select
-- list, row by row; as a table function they would be materialised first.
INSERT INTO events (position, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, personal, salt, metadata)
SELECT unnest($1::integer[]), unnest($2::text[]), unnest($3::uuid[]), unnest($4::integer[]), unnest($5::text[]), unnest($6::text[]),
       unnest($7::text[]), unnest($8::json[]), unnest($9::json[]), unnest($10::uuid[]), unnest($11::json[])
