-- The latest written comments, one per novel, in the columns of post.sql. $1: number of novels.
SELECT n.novel_id, n.slug, n.title, n.state, p.thread_id,
       p.post_id, p.parent_post_id, p.root_post_id, p.depth, coalesce(p.chapter_number::text, ''), p.written_at, p.recorded_at, p.author_id,
       post_is_hidden(p.hidden, p.moderated_at, p.recorded_at, d.posts_hidden_until),
       CASE WHEN p.author_id IS NOT NULL THEN e.personal END,
       d.member_id, a.display_name, i.name
FROM (
    SELECT k.* FROM novel_activity k WHERE k.posted_at > '-infinity' ORDER BY k.posted_at DESC, k.created_at DESC, k.novel_id DESC LIMIT $1
) AS k
JOIN title_lookup n ON n.novel_id = k.novel_id
JOIN threads t ON t.novel_id = k.novel_id
JOIN thread_activity v ON v.thread_id = t.thread_id
JOIN posts p ON p.post_id = v.last_post_id
LEFT JOIN author_decisions d ON d.author_id = p.author_id
LEFT JOIN authors a ON a.author_id = p.author_id
LEFT JOIN events e ON e.stream_id = p.post_id AND e.stream_version = 1
LEFT JOIN integrations i ON i.integration_id = p.integration_id
WHERE n.state IN ('approved', 'published')
ORDER BY p.written_at DESC, p.post_id DESC
