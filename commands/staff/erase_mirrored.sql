-- The streams of events with personal data that may belong to an author: decisions about the author, comments that posts attributes to
-- the author or has skipped, and all comments of the integration after the checkpoint of posts and before the erasure. $1: author; $2:
-- integration; $3: skipped comments; $4: position of the erasure in this transaction.
SELECT e.stream_id, e.personal ->> 'uuid'
FROM events e
WHERE e.stream_id = ANY ((SELECT $3::uuid[] || $1::uuid || posts_of_authors(ARRAY[$1::uuid]))::uuid[]) AND e.personal IS NOT NULL
UNION
SELECT e.stream_id, e.personal ->> 'uuid'
FROM events e
WHERE (e.transaction_id, e.position) > (
        coalesce((SELECT p.transaction_id FROM projections p WHERE p.name = 'posts'), '0'),
        coalesce((SELECT p.position FROM projections p WHERE p.name = 'posts'), 0))
    AND (e.transaction_id, e.position) < (pg_current_xact_id(), $4::integer)
    AND e.integration_id = $2 AND e.event_source = 'posts' AND e.personal IS NOT NULL
