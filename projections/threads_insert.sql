-- Adds the threads that a batch opened. $1: novels, sorted. Redelivery inserts nothing.
INSERT INTO threads (novel_id, thread_id)
SELECT c.novel_id, c.thread_id
FROM unnest($1::uuid[], $2::uuid[]) AS c (novel_id, thread_id)
WHERE NOT EXISTS (SELECT FROM threads t WHERE t.thread_id = c.thread_id)
