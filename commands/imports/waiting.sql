-- The waiting lines of a chunk, and whether each is ready: its parent is on record; it has no parent any more, because it was chosen to
-- break a cycle of replies; or, in a final round, its parent is not waiting itself. $1: import; $2: chunk; $3: whether the round is
-- final.
SELECT w.line, w.post_id, w.parent_post_id, w.parent_post_id IS NULL
    OR EXISTS (SELECT FROM events AS e WHERE e.stream_id = w.parent_post_id AND e.stream_version = 1)
    OR $3 AND NOT EXISTS (SELECT FROM import_waiting AS p WHERE p.import_id = w.import_id AND p.post_id = w.parent_post_id)
FROM import_waiting AS w
WHERE w.import_id = $1 AND w.first_line = $2
