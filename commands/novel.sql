-- The slug and the state of a novel, with its latest rejection if it is rejected. $1: novel. Few events follow a rejection in the
-- stream, because only staff can change a rejected novel.
SELECT t.slug, t.state, r.event_type, r.data
FROM title_lookup t
LEFT JOIN LATERAL (
    SELECT e.event_type, e.data FROM events e
    WHERE t.state = 'rejected' AND e.stream_id = t.novel_id AND e.stream_type = 'novel' AND e.event_type LIKE 'novel.rejected.%'
    ORDER BY e.stream_version DESC LIMIT 1
) AS r ON true
WHERE t.novel_id = $1
