-- Saves the outcomes of a chunk, if the worker still holds the lease.
--
-- $1 import; $2 chunk; $3 holder; $4 body; $5 results; $6 lines without outcome; $7 failed lines; $8 turn of the next visit, NULL to
-- keep the lease; $9 length of the lease; $10 to $15 counts of new outcomes; $16 lines that no longer wait; $17, $18, $19 lines that
-- wait from now on, their comments and parents; $20 pause of the import, NULL for none
WITH old AS (
    SELECT octet_length(body) AS size FROM import_chunks WHERE import_id = $1 AND first_line = $2
), c AS (
    UPDATE import_chunks SET body = $4, results = $5, unsettled = $6, failed = $7, turn = coalesce($8, turn),
        holder = CASE WHEN $8::bigint IS NULL THEN holder END, leased_until = now() + $9::interval
    WHERE import_id = $1 AND first_line = $2 AND holder = $3
    RETURNING import_id, first_line
), gone AS (
    DELETE FROM import_waiting AS w USING c
    WHERE w.import_id = c.import_id AND w.first_line = c.first_line AND w.line = ANY ($16::bigint[])
    RETURNING w.line
), come AS (
    INSERT INTO import_waiting (import_id, first_line, line, post_id, parent_post_id)
    SELECT c.import_id, c.first_line, w.line, w.post_id, w.parent_post_id
    FROM c, unnest($17::bigint[], $18::uuid[], $19::uuid[]) AS w (line, post_id, parent_post_id)
    RETURNING line
)
UPDATE imports AS i SET created = i.created + $10, updated = i.updated + $11, unchanged = i.unchanged + $12,
    replayed = i.replayed + $13, failed = i.failed + $14, parent_missing = i.parent_missing + $15,
    waiting = i.waiting + (SELECT count(*) FROM come) - (SELECT count(*) FROM gone),
    spooled = i.spooled + octet_length($4::bytea) - old.size,
    progress = i.progress + n.settled, worked_at = now(), changed_at = CASE WHEN n.settled > 0 THEN now() ELSE i.changed_at END,
    resume_at = CASE WHEN $20::interval IS NULL THEN i.resume_at ELSE now() + $20::interval END,
    rate = CASE WHEN i.measured_at < now() - interval '3 seconds'
        THEN (i.created + i.updated + i.unchanged + i.replayed + i.failed + n.settled - i.measured_lines)
            / extract(epoch FROM now() - i.measured_at)
        ELSE i.rate END,
    measured_lines = CASE WHEN i.measured_at < now() - interval '3 seconds'
        THEN i.created + i.updated + i.unchanged + i.replayed + i.failed + n.settled
        ELSE i.measured_lines END,
    measured_at = CASE WHEN i.measured_at < now() - interval '3 seconds' THEN now() ELSE i.measured_at END
-- Use i.…: only the row to be updated has the counts of a concurrent save. A subquery on imports would read older ones.
FROM c, old, LATERAL (SELECT $10::bigint + $11 + $12 + $13 + $14 AS settled) AS n
WHERE i.import_id = c.import_id
RETURNING i.state
