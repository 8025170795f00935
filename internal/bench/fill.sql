-- A discussion of $1 comments, a fifth of them top-level and the others in chains of replies, by 2,000 authors of the only integration.
-- What the projections would have written, without the events.
WITH novel AS (
    INSERT INTO title_lookup (folded_title, novel_id, slug, title, state, owner_id, stream_version, details)
    SELECT 'a big discussion', md5('novel')::uuid, 'a-big-discussion', 'A Big Discussion', 'approved', i.integration_id, 1, '{"author": "Unknown"}'
    FROM integrations i LIMIT 1
    RETURNING novel_id, owner_id
), thread AS (
    INSERT INTO threads (novel_id, thread_id) SELECT novel_id, md5('thread')::uuid FROM novel RETURNING novel_id, thread_id
), written AS (
    INSERT INTO authors (author_id, integration_id, external_uuid, display_name, display_name_at, display_name_transaction_id,
                         display_name_position, first_seen_at)
    SELECT md5('author ' || a)::uuid, n.owner_id, 'author ' || a, 'Reader ' || a, timestamptz '2025-01-01', '1', 0, timestamptz '2025-01-01'
    FROM novel n, generate_series(0, 1999) a
)
INSERT INTO posts (post_id, thread_id, novel_id, integration_id, author_id, parent_post_id, chapter_number, content, written_at, recorded_at,
                   event_id, root_post_id, depth)
SELECT md5('post ' || k.n)::uuid, t.thread_id, t.novel_id, n.owner_id, md5('author ' || k.n % 2000)::uuid,
       CASE WHEN k.depth > 0 THEN md5('post ' || k.n - 1)::uuid END, CASE WHEN k.n % 3 = 0 THEN k.n % 40 END,
       repeat('It was all there from the start, and nobody saw it. ', 6), timestamptz '2025-01-01' + k.n * interval '1 minute',
       timestamptz '2025-01-01' + k.n * interval '1 minute', 'post ' || k.n, CASE WHEN k.depth > 0 THEN md5('post ' || k.n - k.depth)::uuid END, k.depth
FROM novel n, thread t, (SELECT n, n % 5 AS depth FROM generate_series(0, $1::integer - 1) n) AS k
