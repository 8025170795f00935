-- Derives authors from their other comments, if the row rests on a withdrawn one: its name or first_seen_at is that of the comment.
-- Authors without other comments are removed. Comments that the log has lost do not count, because their withdrawal or erasure follows.
-- "+ 0" keeps the planner from a scan of the index of the whole log while the table has no statistics.
-- $1: withdrawn comments, which posts still has with their authors; $2: log index of the last event that is applied. Table names are
-- unqualified, except of the log: search_path selects the live tables or those of a rebuild.
WITH affected AS MATERIALIZED (
    SELECT DISTINCT a.author_id
    FROM posts p JOIN authors a ON a.author_id = p.author_id
    WHERE p.post_id = ANY ($1::uuid[]) AND (a.display_name_log_index = p.log_index OR a.first_seen_at = p.recorded_at)
), rest AS MATERIALIZED (
    -- In arrays, because a search of the comments of each author would read those of all of them.
    SELECT p.author_id, array_agg(p.log_index ORDER BY p.log_index) AS by_index,
           array_agg(p.log_index ORDER BY p.written_at DESC, p.log_index DESC) AS by_time,
           array_agg(p.written_at ORDER BY p.written_at DESC, p.log_index DESC) AS times
    FROM posts p
    WHERE p.post_id = ANY ((SELECT posts_of_authors(ARRAY(SELECT author_id FROM affected)))::uuid[])
      AND NOT EXISTS (SELECT FROM unnest($1::uuid[]) AS w (post_id) WHERE w.post_id = p.post_id)
    GROUP BY p.author_id
), derived AS MATERIALIZED (
    SELECT k.author_id, latest.*, earliest.*
    FROM affected k LEFT JOIN rest r ON r.author_id = k.author_id
    -- Only the first events are read.
    LEFT JOIN LATERAL (
        SELECT e.personal ->> 'username' AS display_name, c.written_at, c.log_index, e.recorded_at
        FROM unnest(r.by_time, r.times) AS c (log_index, written_at)
        CROSS JOIN LATERAL (SELECT personal, recorded_at FROM public.events WHERE log_index = c.log_index OFFSET 0) AS e
        WHERE e.personal IS NOT NULL LIMIT 1
    ) AS latest ON true
    LEFT JOIN LATERAL (
        SELECT e.recorded_at AS first_seen_at, c.log_index AS first_log_index
        FROM unnest(r.by_index) AS c (log_index)
        CROSS JOIN LATERAL (SELECT personal, recorded_at FROM public.events WHERE log_index = c.log_index OFFSET 0) AS e
        WHERE e.personal IS NOT NULL LIMIT 1
    ) AS earliest ON true
), removed AS (
    DELETE FROM authors a USING derived d WHERE a.author_id = d.author_id AND d.log_index IS NULL
)
UPDATE authors a
SET display_name = d.display_name, display_name_at = d.written_at, display_name_log_index = d.log_index, first_seen_at = d.first_seen_at,
    changed_at = greatest(d.recorded_at, (
        SELECT max(e.recorded_at) FROM public.events e
        WHERE e.stream_id = a.author_id AND e.log_index + 0 > d.first_log_index AND e.log_index + 0 <= $2
          AND e.event_type IN ('author.linked.v1', 'author.unlinked.v1', 'author.blocked.v1', 'author.unblocked.v1')))
FROM derived d
WHERE a.author_id = d.author_id AND d.log_index IS NOT NULL
