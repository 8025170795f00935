-- Adds the threads that a batch opened. $1: novels, sorted.
INSERT INTO threads (novel_id, thread_id)
SELECT c.novel_id, c.thread_id
FROM unnest($1::uuid[], $2::uuid[]) AS c (novel_id, thread_id)
