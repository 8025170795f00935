-- Appends events after the last one, under the lock of the log: without it, the primary key refuses a second writer. $1: their number,
-- $2: id of the append. recorded_at is later than that of the append before, although the clock may have been set back, or a standby
-- with another clock been promoted: copies of the views ask for what has changed since a time. The arrays are unnested in the select list, row by row; as a table function they would be materialised first.
INSERT INTO events (log_index, recorded_at, batch_id, stream_type, stream_id, stream_version, event_id, integration_id, event_source, event_type, data,
    personal, salt, key_id, fingerprint, request_id, actor, correlation, causation, traceparent)
SELECT log.next + generate_series(0, $1::integer - 1), log.now, $2::uuid, unnest($3::text[]), unnest($4::uuid[]), unnest($5::integer[]),
       unnest($6::text[]), unnest($7::uuid[]), unnest($8::text[]), unnest($9::text[]), unnest($10::json[]), unnest($11::json[]),
       unnest($12::uuid[]), unnest($13::uuid[]), unnest($14::uuid[]), unnest($15::text[]), unnest($16::text[]), unnest($17::text[]),
       unnest($18::text[]), unnest($19::text[])
FROM (SELECT coalesce(max(log_index) + 1, 0) AS next, greatest(statement_timestamp(), max(recorded_at) + interval '1 microsecond') AS now
      FROM (SELECT log_index, recorded_at FROM events ORDER BY log_index DESC LIMIT 1) AS last) AS log
