-- The asynchronous projections posts and authors.

-- +goose Up
ALTER TABLE projections ADD COLUMN unknown_type text;
COMMENT ON COLUMN projections.unknown_type IS 'Type of the event after the checkpoint if the running replicas do not know it: the projection waits for a newer replica.';

-- One row per comment. The text is only in the event, which readers join by (stream_id, stream_version) = (post_id, 1): storing it
-- again would double the size of a comment. Columns of fixed width first, to avoid padding.
CREATE TABLE posts (
    written_at        timestamptz NOT NULL,
    recorded_at       timestamptz NOT NULL,
    moderated_at      timestamptz,
    content_bytes     integer,
    depth             integer     NOT NULL DEFAULT 0,
    moderated_version integer,
    post_id           uuid        NOT NULL,
    thread_id         uuid        NOT NULL,
    novel_id          uuid        NOT NULL,
    integration_id    uuid        NOT NULL,
    author_id         uuid,
    parent_post_id    uuid,
    root_post_id      uuid,
    hidden            boolean     NOT NULL DEFAULT false,
    chapter_number    numeric,
    CONSTRAINT posts_pkey PRIMARY KEY (post_id),
    CONSTRAINT posts_erased_as_a_whole CHECK ((author_id IS NULL) = (content_bytes IS NULL))
);

COMMENT ON TABLE posts IS 'Projection: one row per imported comment, without its text, which is in the event. Rebuildable from events.';
COMMENT ON COLUMN posts.author_id IS 'See authors; NULL once the comment was erased.';
COMMENT ON COLUMN posts.content_bytes IS 'Length of the text in UTF-8, by which pages are cut; NULL once the comment was erased.';
COMMENT ON COLUMN posts.recorded_at IS 'When the comment was received.';
COMMENT ON COLUMN posts.hidden IS 'Whether staff hid this comment individually. For visibility to readers see post_is_hidden.';
COMMENT ON COLUMN posts.moderated_at IS 'When staff last hid or restored this comment individually; NULL if never.';
COMMENT ON COLUMN posts.moderated_version IS 'Version of the post''s stream that hidden and moderated_at reflect; NULL without a decision.';
COMMENT ON COLUMN posts.root_post_id IS 'Top-level comment of this direct or indirect reply; NULL when the comment is top-level itself.';
COMMENT ON COLUMN posts.depth IS 'Number of replies up to the top-level comment: 0 for a top-level comment, 1 for a direct reply.';

-- A discussion is paged by its top-level comments in the order of writing. No chapter is -1, because an index cannot provide an order
-- that starts with chapter_number IS NULL.
CREATE INDEX posts_top_level ON posts (thread_id, written_at, post_id) WHERE root_post_id IS NULL;
CREATE INDEX posts_top_level_by_chapter ON posts (thread_id, (coalesce(chapter_number, -1)), written_at, post_id) WHERE root_post_id IS NULL;
-- Replies to a top-level comment are paged in the order of receipt: a parent precedes its replies. Of comments received at the same
-- instant, the deeper one is the reply.
CREATE INDEX posts_replies ON posts (root_post_id, recorded_at, depth, post_id) WHERE root_post_id IS NOT NULL;
-- The comments of an author are searched rarely and added all the time. A GIN index appends new rows to a list and sorts them in by
-- the thousand, at less than half the cost of a B-tree, which searches the place of each row.
CREATE INDEX posts_by_author ON posts USING gin ((ARRAY[author_id])) WHERE author_id IS NOT NULL;

-- Only a bitmap scan reads such an index, and the sessions of readers have it switched off. A cached plan from when the table was
-- small or never analysed would read the whole table. In the body, search_path selects the generation.
--
-- A statement that calls this function must also name posts. Then the table is locked before the statement gets its snapshot.
-- Otherwise a rebuild could exchange the table in between, and rows that the rebuild has just written would be missing.
-- +goose StatementBegin
CREATE FUNCTION posts_of_authors(p_authors uuid[]) RETURNS uuid[]
    LANGUAGE sql STABLE SET enable_seqscan = off SET enable_bitmapscan = on SET jit = off AS $$
    SELECT coalesce(array_agg(p.post_id), '{}') FROM posts AS p
    WHERE p.author_id IS NOT NULL AND ARRAY[p.author_id] && p_authors
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION posts_of_authors IS 'The comments of some authors in posts, by the index posts_by_author. Statements that call it must also name posts.';

-- Most batches update authors in place: free room on the page avoids index updates.
CREATE TABLE authors (
    author_id              uuid        NOT NULL,
    integration_id         uuid        NOT NULL,
    external_uuid          text        NOT NULL,
    display_name           text        NOT NULL,
    display_name_at        timestamptz NOT NULL,
    display_name_log_index bigint      NOT NULL,
    first_seen_at          timestamptz NOT NULL,
    CONSTRAINT authors_pkey PRIMARY KEY (author_id)
) WITH (fillfactor = 70);

COMMENT ON TABLE authors IS 'Projection: one row per partner''s user who has commented. Rebuildable from events.';
COMMENT ON COLUMN authors.external_uuid IS 'The partner''s identifier of the user.';
COMMENT ON COLUMN authors.display_name IS 'User name on the comment with the latest written_at; of several, on the latest in the log.';
COMMENT ON COLUMN authors.display_name_at IS 'When that comment was written.';
COMMENT ON COLUMN authors.display_name_log_index IS 'Place of that comment in the log.';
COMMENT ON COLUMN authors.first_seen_at IS 'When the first comment of the author was received, however old it was then.';

CREATE SCHEMA analytics;
COMMENT ON SCHEMA analytics IS 'Read models for analysts. Columns are only ever added.';

-- +goose Down
DROP SCHEMA analytics CASCADE;
DROP TABLE authors;
DROP FUNCTION posts_of_authors;
DROP TABLE posts;
ALTER TABLE projections DROP COLUMN unknown_type;
