-- Adds comments. Table names are unqualified: search_path selects the live tables or those of a rebuild. $11, $12, $13: place of each comment in its
-- discussion, as far as the batch shows it (type place): its highest ancestor in the batch, the parent of this ancestor, and the number
-- of steps below this ancestor. $5: the partner's identifier of the author, NULL for an erased comment.
INSERT INTO posts (post_id, thread_id, novel_id, integration_id, author_id, parent_post_id, chapter_number, content_bytes,
                   written_at, recorded_at, changed_at, log_index, root_post_id, depth, parent_lost)
SELECT p.post_id, p.thread_id, p.novel_id, p.integration_id,
       author_id(author_key((SELECT s.value FROM settings AS s WHERE s.name = 'author_secret'), p.integration_id), p.external_uuid),
       p.parent_post_id, p.chapter_number::numeric, p.content_bytes,
       p.written_at, p.recorded_at, p.recorded_at, p.log_index,
       coalesce(a.root_post_id, a.post_id, CASE WHEN p.steps > 0 THEN p.top_id END), p.steps + coalesce(a.depth + 1, 0), p.parent_lost
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::uuid[], $7::text[], $8::integer[],
            $9::timestamptz[], $10::timestamptz[], $11::uuid[], $12::uuid[], $13::integer[], $14::bigint[], $15::boolean[])
     AS p (post_id, thread_id, novel_id, integration_id, external_uuid, parent_post_id, chapter_number, content_bytes,
           written_at, recorded_at, top_id, anchor_id, steps, log_index, parent_lost)
-- The LIMIT forces one index probe per row instead of a join that reads the table.
LEFT JOIN LATERAL (SELECT q.post_id, q.root_post_id, q.depth FROM posts q WHERE q.post_id = p.anchor_id LIMIT 1) AS a ON true
-- Neighbours in the indexes of discussions are added together, while their pages are at hand.
ORDER BY p.thread_id
