-- Analysts see how deep a reply is, which the pages have needed all along: following parents comment by comment reads all of posts once
-- for each level.

-- +goose Up
CREATE OR REPLACE VIEW analytics.posts AS
SELECT p.post_id, p.thread_id, p.novel_id, p.integration_id, p.author_id, p.parent_post_id, p.chapter_number,
       CASE WHEN NOT post_is_hidden(p.hidden, p.moderated_at, p.recorded_at, d.posts_hidden_until) THEN p.content END AS content,
       p.written_at, p.recorded_at AS received_at, p.event_id AS idempotency_key,
       post_is_hidden(p.hidden, p.moderated_at, p.recorded_at, d.posts_hidden_until) AS hidden, d.member_id, p.depth
FROM posts p
LEFT JOIN author_decisions d ON d.author_id = p.author_id;

COMMENT ON COLUMN analytics.posts.depth IS 'How many replies up the top-level comment is: 0 for that itself, 1 for an answer to it.';
COMMENT ON COLUMN analytics.freshness.generation IS 'Generation of the code that its tables were built with; a program with a later one builds them anew.';
COMMENT ON COLUMN analytics.freshness.as_of IS 'What was committed before this moment is in the views. What was being stored at that moment is not, and may have a received_at of before it.';

-- +goose Down
COMMENT ON COLUMN analytics.freshness.as_of IS 'What was received before this moment is in the views.';
COMMENT ON COLUMN analytics.freshness.generation IS 'Which build of its tables the views show; a rebuild makes the next one.';
DROP VIEW analytics.posts;
CREATE VIEW analytics.posts AS
SELECT p.post_id, p.thread_id, p.novel_id, p.integration_id, p.author_id, p.parent_post_id, p.chapter_number,
       CASE WHEN NOT post_is_hidden(p.hidden, p.moderated_at, p.recorded_at, d.posts_hidden_until) THEN p.content END AS content,
       p.written_at, p.recorded_at AS received_at, p.event_id AS idempotency_key,
       post_is_hidden(p.hidden, p.moderated_at, p.recorded_at, d.posts_hidden_until) AS hidden, d.member_id
FROM posts p
LEFT JOIN author_decisions d ON d.author_id = p.author_id;
