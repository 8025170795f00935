-- Adds comments. A post is imported once, so a conflict is a second application of the same event; it only matters
-- if the comment was erased since. Table names are unqualified: search_path decides which generation is written.
INSERT INTO posts (post_id, thread_id, novel_id, integration_id, author_id, parent_post_id, chapter_number, content,
                   written_at, recorded_at, event_id)
SELECT p.post_id, p.thread_id, p.novel_id, p.integration_id, p.author_id, p.parent_post_id, p.chapter_number::numeric, p.content,
       p.written_at, p.recorded_at, p.event_id
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::uuid[], $6::uuid[], $7::text[], $8::text[],
            $9::timestamptz[], $10::timestamptz[], $11::text[])
     AS p (post_id, thread_id, novel_id, integration_id, author_id, parent_post_id, chapter_number, content,
           written_at, recorded_at, event_id)
ON CONFLICT (post_id) DO UPDATE SET author_id = NULL, content = NULL
WHERE EXCLUDED.content IS NULL AND posts.content IS NOT NULL
