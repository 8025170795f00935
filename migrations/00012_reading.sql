-- What readers of discussions need: where a reply stands, and indexes that a page of a discussion is read from.

-- +goose Up
ALTER TABLE posts
    ADD COLUMN root_post_id uuid,
    ADD COLUMN depth integer NOT NULL DEFAULT 0;

COMMENT ON COLUMN posts.root_post_id IS 'Top-level comment under which this reply stands, directly or not; NULL when the comment is top-level itself.';
COMMENT ON COLUMN posts.depth IS 'How many replies up the top-level comment is: 0 for that itself, 1 for an answer to it.';

-- What is stored already. A reply comes after what it replies to, so every walk up ends.
WITH RECURSIVE placed (post_id, root_post_id, depth) AS (
    SELECT p.post_id, NULL::uuid, 0 FROM posts p
    WHERE p.parent_post_id IS NULL OR NOT EXISTS (SELECT FROM posts q WHERE q.post_id = p.parent_post_id)
    UNION ALL
    SELECT p.post_id, coalesce(a.root_post_id, a.post_id), a.depth + 1
    FROM placed a JOIN posts p ON p.parent_post_id = a.post_id
)
UPDATE posts p SET root_post_id = a.root_post_id, depth = a.depth
FROM placed a WHERE a.post_id = p.post_id AND a.depth > 0;

-- A discussion is paged by its top-level comments, in the order in which they were written. No chapter is -1, because an order
-- behind IS NULL would not be read from an index.
CREATE INDEX posts_top_level ON posts (thread_id, written_at, post_id) WHERE root_post_id IS NULL;
CREATE INDEX posts_top_level_by_chapter ON posts (thread_id, (coalesce(chapter_number, -1)), written_at, post_id) WHERE root_post_id IS NULL;
-- The replies below a top-level comment are paged in the order in which they arrived: none comes before what it replies to. Of those
-- that arrived at the same instant, the deeper one is the reply.
CREATE INDEX posts_replies ON posts (root_post_id, recorded_at, depth, post_id) WHERE root_post_id IS NOT NULL;
-- The names that an author had.
CREATE INDEX posts_by_author ON posts (author_id, written_at) WHERE author_id IS NOT NULL;

-- +goose Down
DROP INDEX posts_by_author;
DROP INDEX posts_replies;
DROP INDEX posts_top_level_by_chapter;
DROP INDEX posts_top_level;
ALTER TABLE posts DROP COLUMN root_post_id, DROP COLUMN depth;
