-- Derives authors from their other comments, if the row rests on a withdrawn one: its name or first_seen_at is that of the comment.
-- Authors without other comments are removed. Comments that the log has lost do not count, because their withdrawal or erasure follows.
-- $1: withdrawn comments, which posts still has with their authors; $2: log index of the last event that is applied. Table names are
-- unqualified, except of the log: search_path selects the live tables or those of a rebuild.
WITH affected AS MATERIALIZED (
    SELECT DISTINCT a.author_id
    FROM posts p JOIN authors a ON a.author_id = p.author_id
    WHERE p.post_id = ANY ($1::uuid[]) AND (a.display_name_log_index = p.log_index OR a.first_seen_at = p.recorded_at)
), rest AS MATERIALIZED (
    SELECT p.author_id, p.written_at, p.log_index, p.recorded_at
    FROM posts p
    WHERE p.post_id = ANY ((SELECT posts_of_authors(ARRAY(SELECT author_id FROM affected)))::uuid[]) AND p.post_id <> ALL ($1)
), derived AS MATERIALIZED (
    SELECT k.author_id, latest.*, earliest.*
    FROM affected k
    -- Sorted inside, so that only the first events are read.
    LEFT JOIN LATERAL (
        SELECT e.personal ->> 'username' AS display_name, r.written_at, r.log_index, r.recorded_at
        FROM (SELECT * FROM rest WHERE author_id = k.author_id ORDER BY written_at DESC, log_index DESC OFFSET 0) AS r
        CROSS JOIN LATERAL (SELECT personal FROM public.events WHERE log_index = r.log_index OFFSET 0) AS e
        WHERE e.personal IS NOT NULL LIMIT 1
    ) AS latest ON true
    LEFT JOIN LATERAL (
        SELECT r.recorded_at AS first_seen_at, r.log_index AS first_log_index
        FROM (SELECT * FROM rest WHERE author_id = k.author_id ORDER BY log_index OFFSET 0) AS r
        CROSS JOIN LATERAL (SELECT personal FROM public.events WHERE log_index = r.log_index OFFSET 0) AS e
        WHERE e.personal IS NOT NULL LIMIT 1
    ) AS earliest ON true
), removed AS (
    DELETE FROM authors a USING derived d WHERE a.author_id = d.author_id AND d.log_index IS NULL
)
UPDATE authors a
SET display_name = d.display_name, display_name_at = d.written_at, display_name_log_index = d.log_index, first_seen_at = d.first_seen_at,
    changed_at = greatest(d.recorded_at, (
        SELECT max(e.recorded_at) FROM public.events e
        WHERE e.stream_id = a.author_id AND e.log_index > d.first_log_index AND e.log_index <= $2
          AND e.event_type IN ('author.linked.v1', 'author.unlinked.v1', 'author.blocked.v1', 'author.unblocked.v1')))
FROM derived d
WHERE a.author_id = d.author_id AND d.log_index IS NOT NULL
