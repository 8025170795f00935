-- Comments with their novels. Go code completes the statement: :posts is the source of the comments, :rest what follows.
SELECT n.novel_id, n.slug, n.title, n.state, p.thread_id,
       p.post_id, p.parent_post_id, p.root_post_id, p.depth, coalesce(p.chapter_number::text, ''), p.written_at, p.recorded_at,
       p.edited_at, p.withdrawn, post_is_hidden(p.hidden, p.moderated_at, p.recorded_at, d.posts_hidden_until),
       CASE WHEN p.author_id IS NOT NULL THEN e.personal END,
       d.member_id, a.display_name, i.name
FROM :posts AS p
JOIN title_lookup n ON n.novel_id = p.novel_id
LEFT JOIN author_decisions d ON d.author_id = p.author_id
LEFT JOIN authors a ON a.author_id = p.author_id
LEFT JOIN events e ON e.log_index = coalesce(p.text_log_index, p.log_index)
LEFT JOIN integrations i ON i.integration_id = p.integration_id
WHERE :rest
