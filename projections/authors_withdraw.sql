-- Derives authors from their other comments, if the row rests on a withdrawn one: its name or first_seen_at is that of the comment.
-- Authors without other comments are removed. Comments that the log has lost do not count, because their withdrawal or erasure follows.
-- "+ 0" keeps the planner from a scan of the index of the whole log while the table has no statistics.
-- $1: withdrawn comments, which posts still has with their authors; $2: log index of the last event that is applied. Table names are
-- unqualified, except of the log: search_path selects the live tables or those of a rebuild.
WITH affected AS MATERIALIZED (
    SELECT a.author_id, bool_or(a.display_name_log_index = p.log_index) AS renamed
    FROM posts p JOIN authors a ON a.author_id = p.author_id
    WHERE p.post_id = ANY ($1::uuid[]) AND (a.display_name_log_index = p.log_index OR a.first_seen_at = p.recorded_at)
    GROUP BY a.author_id
), derived AS MATERIALIZED (
    SELECT k.author_id, k.renamed, latest.*, earliest.*
    FROM affected k
    -- The index posts_by_author has the columns of all comments, and few events are read. The latest comment takes a sort, so only an
    -- author without a name pays for it.
    LEFT JOIN LATERAL (
        SELECT e.personal ->> 'username' AS display_name, c.written_at, c.log_index, e.recorded_at
        FROM (
            SELECT p.written_at, p.log_index FROM posts p WHERE k.renamed AND p.author_id = k.author_id
            ORDER BY p.written_at DESC, p.log_index DESC
        ) AS c
        CROSS JOIN LATERAL (SELECT stream_id, personal, recorded_at FROM public.events WHERE log_index = c.log_index OFFSET 0) AS e
        WHERE e.personal IS NOT NULL AND e.stream_id <> ALL ($1) LIMIT 1
    ) AS latest ON true
    LEFT JOIN LATERAL (
        SELECT e.recorded_at AS first_seen_at, c.log_index AS first_log_index
        FROM (SELECT p.log_index FROM posts p WHERE p.author_id = k.author_id ORDER BY p.log_index) AS c
        CROSS JOIN LATERAL (SELECT stream_id, personal, recorded_at FROM public.events WHERE log_index = c.log_index OFFSET 0) AS e
        WHERE e.personal IS NOT NULL AND e.stream_id <> ALL ($1) LIMIT 1
    ) AS earliest ON true
), removed AS (
    DELETE FROM authors a USING derived d WHERE a.author_id = d.author_id AND d.renamed AND d.log_index IS NULL
)
UPDATE authors a
SET display_name = coalesce(d.display_name, a.display_name), display_name_at = coalesce(d.written_at, a.display_name_at),
    display_name_log_index = coalesce(d.log_index, a.display_name_log_index), first_seen_at = coalesce(d.first_seen_at, a.first_seen_at),
    changed_at = greatest(
        coalesce(d.recorded_at, (SELECT e.recorded_at FROM public.events e WHERE e.log_index = a.display_name_log_index)),
        (SELECT max(e.recorded_at) FROM public.events e
         WHERE e.stream_id = a.author_id AND e.log_index + 0 > d.first_log_index AND e.log_index + 0 <= $2
           AND e.event_type IN ('author.linked.v1', 'author.unlinked.v1', 'author.blocked.v1', 'author.unblocked.v1')))
FROM derived d
WHERE a.author_id = d.author_id AND (d.log_index IS NOT NULL OR NOT d.renamed)
