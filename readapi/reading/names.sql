-- Under which name authors were known at a moment: that on the comment that was written last of those received by then; of comments
-- written at the same instant, the one later in the log. $1: authors; $2: the moment.
SELECT k.author_id, e.event_type, e.data, e.personal
FROM unnest($1::uuid[]) AS k (author_id)
CROSS JOIN LATERAL (
    SELECT p.written_at FROM posts p
    WHERE p.author_id = k.author_id AND p.recorded_at <= $2 AND p.written_at <= $2 + interval '1 day' -- see discussion.sql
    ORDER BY p.written_at DESC LIMIT 1
) AS m
CROSS JOIN LATERAL (
    SELECT v.event_type, v.data, v.personal
    FROM posts p JOIN events v ON v.stream_id = p.post_id AND v.stream_version = 1
    WHERE p.author_id = k.author_id AND p.written_at = m.written_at AND p.recorded_at <= $2
    ORDER BY v.transaction_id DESC, v.position DESC LIMIT 1
) AS e
