-- Comments for staff. Go code completes the statement: :walk selects candidates in the order of the page (post_id, place, since), of
-- which :filter (on p and d) selects up to :limit, in the order :order. The joins follow the selection, so that candidates cost two probes.
-- The order is that of :walk, so a full page ends the walk.
WITH picked AS MATERIALIZED (
    SELECT w.place, w.since, p.*, d.member_id, coalesce(d.blocked, false) AS blocked,
           post_is_hidden(p.hidden, p.moderated_at, p.recorded_at, d.posts_hidden_until) AS is_hidden
    FROM (:walk) AS w
    CROSS JOIN LATERAL (
        SELECT q.post_id, q.thread_id, q.novel_id, q.integration_id, q.parent_post_id, q.chapter_number, q.written_at, q.recorded_at,
               q.edited_at, q.withdrawn, q.hidden, q.moderated_at, q.author_id, q.log_index, coalesce(q.text_log_index, q.log_index) AS text_at
        FROM posts q WHERE q.post_id = w.post_id LIMIT 1
    ) AS p
    LEFT JOIN author_decisions d ON d.author_id = p.author_id
    WHERE :filter
    ORDER BY :order LIMIT :limit
)
SELECT p.place, p.since, p.post_id, p.thread_id, p.novel_id, coalesce(n.slug, ''), coalesce(n.title, ''), p.integration_id,
       coalesce(i.name, ''), p.parent_post_id, p.chapter_number::text, p.written_at, p.recorded_at, p.edited_at, p.withdrawn,
       CASE WHEN p.author_id IS NOT NULL THEN e.personal END, p.author_id, p.member_id, p.blocked,
       p.hidden AND NOT p.withdrawn, p.is_hidden AND NOT p.withdrawn, coalesce(h.reason, ''),
       r.spam, r.abuse, r.spoiler, r.illegal, r.copyright, r.other, r.first_reported_at
FROM picked p
LEFT JOIN title_lookup n ON n.novel_id = p.novel_id
LEFT JOIN integrations i ON i.integration_id = p.integration_id
LEFT JOIN events e ON e.log_index = p.text_at
LEFT JOIN reported_posts r ON r.post_id = p.post_id
LEFT JOIN LATERAL (
    SELECT x.data ->> 'reason' AS reason FROM events x
    WHERE p.is_hidden AND x.stream_id = CASE WHEN p.hidden THEN p.post_id ELSE p.author_id END
      AND x.event_type = CASE WHEN p.hidden THEN 'post.hidden.v1' ELSE 'author.posts_hidden.v1' END
    ORDER BY x.stream_version DESC LIMIT 1
) AS h ON true
ORDER BY :order
