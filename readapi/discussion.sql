-- One page of a discussion: one row per comment, in any order; for a novel without comments, one row with only the novel.
--
-- $1        slug of the novel
-- $2, $3    written_at and log_index of the top-level comment to start at
-- $4        maximum number of top-level comments
-- $5        maximum number of replies to each
-- $6        top-level comment whose replies start at $7, $8: written_at, log_index
-- $9        maximum bytes of text. The comment that exceeds it and all later top-level comments come without text ("cut").
-- $10       last chapter of the comments, Infinity for all
-- $11       chapter, only on a page of one chapter
--
-- Go code completes the statement:
-- {…}                              SQL only for a page of one chapter
-- […]                              SQL only for a page of one chapter, or up to a chapter
-- :counts                          the table with the counts: v for a selection of chapters, otherwise w
-- :compare, :opposite, :direction  >=, <=, ASC for oldest first; <=, >=, DESC for newest first
--
-- The chapter is compared as a range, because with = the planner may choose the index over all chapters.
-- The program decodes the text from e.personal, because PostgreSQL takes twice as long.
SELECT c.novel_id, c.slug, c.title, c.state, c.language, c.cover_url, c.thread_id, c.posts, c.replies, c.last_post_id,
       c.post_id, c.parent_post_id, c.root_post_id, c.depth, c.chapter_number::text, c.written_at, c.recorded_at, c.log_index,
       c.edited_at, c.withdrawn, post_is_hidden(c.hidden, c.moderated_at, c.recorded_at, d.posts_hidden_until), c.through > $9,
       CASE WHEN c.author_id IS NOT NULL AND c.through <= $9 THEN e.personal END, d.member_id, a.display_name, i.name
FROM (
SELECT n.*, t.thread_id, coalesce(:counts.posts, 0) AS posts, coalesce(:counts.replies, 0) AS replies, w.last_post_id,
       s.post_id, s.parent_post_id, s.root_post_id, s.depth, s.chapter_number, s.written_at, s.recorded_at, s.log_index, s.author_id,
       s.text_log_index, s.edited_at, s.withdrawn, s.hidden, s.moderated_at, s.integration_id, coalesce(s.content_bytes, 0) AS size,
       -- In the order of the joins: each top-level comment, then its replies.
       sum(coalesce(s.content_bytes, 0)) OVER (ROWS UNBOUNDED PRECEDING) AS through
FROM (
    -- OFFSET 0: evaluate details once, not for every row of the join.
    SELECT l.novel_id, l.slug, l.title, l.state, coalesce(l.details->>'language', '') AS language, coalesce(l.details->>'coverUrl', '') AS cover_url
    FROM title_lookup l WHERE l.slug = $1 AND NOT (l.state = 'rejected' AND l.owner_id IS NULL) OFFSET 0
) AS n
LEFT JOIN threads t ON t.novel_id = n.novel_id
LEFT JOIN thread_activity w ON w.thread_id = t.thread_id
[LEFT JOIN LATERAL (
    SELECT sum(x.posts)::bigint AS posts, sum(x.replies)::bigint AS replies FROM chapter_activity x
    WHERE x.thread_id = t.thread_id AND x.chapter_number <= $10::text::numeric{ AND x.chapter_number = $11::text::numeric}
) AS v ON true]
LEFT JOIN LATERAL (
    SELECT p.post_id, p.parent_post_id, p.root_post_id, p.depth, p.chapter_number, p.written_at, p.recorded_at, p.log_index, p.author_id,
           p.text_log_index, p.edited_at, p.withdrawn, p.hidden, p.moderated_at, p.content_bytes, p.integration_id
    FROM posts p
    WHERE p.thread_id = t.thread_id AND p.root_post_id IS NULL AND NOT p.vanished
      AND ({coalesce(p.chapter_number, -1), }p.written_at, p.log_index) :compare ({$11::text::numeric, }$2::timestamptz, $3::bigint)
      {AND coalesce(p.chapter_number, -1) :opposite $11::text::numeric}
      AND coalesce(p.chapter_number, 0) <= $10::text::numeric
    ORDER BY {coalesce(p.chapter_number, -1) :direction, }p.written_at :direction, p.log_index :direction LIMIT $4
) AS r ON true
LEFT JOIN LATERAL (
    SELECT r.post_id, r.parent_post_id, r.root_post_id, r.depth, r.chapter_number, r.written_at, r.recorded_at, r.log_index, r.author_id,
           r.text_log_index, r.edited_at, r.withdrawn, r.hidden, r.moderated_at, r.content_bytes, r.integration_id
    UNION ALL
    (SELECT q.post_id, q.parent_post_id, q.root_post_id, q.depth, q.chapter_number, q.written_at, q.recorded_at, q.log_index, q.author_id,
            q.text_log_index, q.edited_at, q.withdrawn, q.hidden, q.moderated_at, q.content_bytes, q.integration_id
     FROM posts q
     WHERE q.root_post_id = r.post_id AND coalesce(q.chapter_number, 0) <= $10::text::numeric
       AND (q.written_at, q.log_index) >= (CASE WHEN r.post_id = $6 THEN $7 ELSE timestamptz '-infinity' END,
                                           CASE WHEN r.post_id = $6 THEN $8::bigint ELSE 0 END)
     ORDER BY q.written_at, q.log_index LIMIT $5)
) AS s ON r.post_id IS NOT NULL
) AS c
LEFT JOIN author_decisions d ON d.author_id = c.author_id
LEFT JOIN authors a ON a.author_id = c.author_id
LEFT JOIN events e ON e.log_index = coalesce(c.text_log_index, c.log_index)
LEFT JOIN integrations i ON i.integration_id = c.integration_id
WHERE c.through - c.size <= $9 OR c.root_post_id IS NULL
