-- Which comments readers see. $1: comments.
SELECT p.post_id
FROM posts p
JOIN title_lookup n ON n.novel_id = p.novel_id AND n.state IN ('approved', 'published')
LEFT JOIN author_decisions d ON d.author_id = p.author_id
WHERE p.post_id = ANY ($1::uuid[]) AND p.author_id IS NOT NULL
  AND NOT post_is_hidden(p.hidden, p.moderated_at, p.recorded_at, d.posts_hidden_until)
