-- A discussion of $1 comments by 2,000 authors of the only integration: a fifth are top-level, the others are chains of replies. Rows
-- as the projections would write them, with the columns of the events that they read.
WITH novel AS (
    INSERT INTO title_lookup (folded_title, novel_id, slug, title, state, owner_id, stream_version, details)
    SELECT 'a big discussion', md5('novel')::uuid, 'a-big-discussion', 'A Big Discussion', 'approved', i.integration_id, 1, '{"author": "Unknown"}'
    FROM integrations i LIMIT 1
    RETURNING novel_id, owner_id
), thread AS (
    INSERT INTO threads (novel_id, thread_id) SELECT novel_id, md5('thread')::uuid FROM novel RETURNING novel_id, thread_id
), named AS (
    INSERT INTO authors (author_id, integration_id, external_uuid, display_name, display_name_at, display_name_log_index,
                         first_seen_at)
    SELECT md5('author ' || a)::uuid, n.owner_id, 'author ' || a, 'Reader ' || a, timestamptz '2025-01-01', 0, timestamptz '2025-01-01'
    FROM novel n, generate_series(0, 1999) a
), written AS (
    SELECT k.n, k.depth, n.novel_id, n.owner_id, t.thread_id, 'post ' || k.n AS key,
           encode(substring(sha256(uuid_send(n.owner_id) || convert_to('post ' || k.n, 'UTF8')) FOR 16), 'hex')::uuid AS post_id,
           encode(substring(sha256(uuid_send(n.owner_id) || convert_to('post ' || k.n - 1, 'UTF8')) FOR 16), 'hex')::uuid AS parent_id,
           encode(substring(sha256(uuid_send(n.owner_id) || convert_to('post ' || k.n - k.depth, 'UTF8')) FOR 16), 'hex')::uuid AS root_id,
           repeat('It was all there from the start, and nobody saw it. ', 6) AS content
    FROM novel n, thread t, (SELECT n, n % 5 AS depth FROM generate_series(0, $1::integer - 1) n) AS k
), logged AS (
    INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, integration_id, event_source, event_type, data, personal, batch_id)
    SELECT log.next + w.n, 'post', w.post_id, 1, w.key, w.owner_id, 'posts', 'post.imported.v1', '{}',
           json_build_object('uuid', 'author ' || w.n % 2000, 'username', 'Reader ' || w.n % 2000, 'content', w.content), w.post_id
    FROM written w, (SELECT coalesce(max(log_index) + 1, 0) AS next FROM events) AS log
)
INSERT INTO posts (post_id, thread_id, novel_id, integration_id, author_id, parent_post_id, chapter_number, content_bytes, written_at, recorded_at,
                   root_post_id, depth)
SELECT w.post_id, w.thread_id, w.novel_id, w.owner_id, md5('author ' || w.n % 2000)::uuid, CASE WHEN w.depth > 0 THEN w.parent_id END,
       CASE WHEN w.n % 3 = 0 THEN w.n % 40 END, octet_length(w.content), timestamptz '2025-01-01' + w.n * interval '1 minute',
       timestamptz '2025-01-01' + w.n * interval '1 minute', CASE WHEN w.depth > 0 THEN w.root_id END, w.depth
FROM written w
