-- The recorded commands of an integration, except comments. $1: keys, $2: integration; $3: path of the source. The form of the query forces one index probe per key, whatever
-- the statistics of the table say.
SELECT k.event_id
FROM unnest($1::text[]) AS k (event_id)
CROSS JOIN LATERAL (
    SELECT FROM events e
    WHERE e.event_id = k.event_id AND e.event_source = $3 AND e.integration_id = $2
      AND (e.stream_type <> 'post' OR e.stream_version > 1) LIMIT 1
) AS e
