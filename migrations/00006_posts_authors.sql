-- The asynchronous projections posts and authors, and the views that analysts query.

-- +goose Up
ALTER TABLE projections ADD COLUMN unknown_type text;
COMMENT ON COLUMN projections.unknown_type IS 'Event type right behind the checkpoint that the replicas running now do not know: the projection waits for a newer one.';

-- A function, so that it is planned by itself: inside a larger query the planner takes it for expensive enough to compile.
-- +goose StatementBegin
CREATE FUNCTION projection_lag(
    p_transaction_id xid8,
    p_position       integer,
    p_most           integer,
    OUT events       bigint,
    OUT seconds      double precision
) LANGUAGE sql STABLE SET jit = off AS $$
    SELECT
        (SELECT count(*) FROM (
            SELECT FROM events AS e
            WHERE (e.transaction_id, e.position) > (p_transaction_id, p_position)
              AND e.transaction_id < pg_snapshot_xmin(pg_current_snapshot())
            ORDER BY e.transaction_id, e.position LIMIT p_most) AS behind),
        coalesce((
            SELECT greatest(extract(epoch FROM statement_timestamp() - e.recorded_at), 0) FROM events AS e
            WHERE (e.transaction_id, e.position) > (p_transaction_id, p_position)
              AND e.transaction_id < pg_snapshot_xmin(pg_current_snapshot())
            ORDER BY e.transaction_id, e.position LIMIT 1), 0)
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION projection_lag IS 'Settled events behind a position in the log, counted up to p_most, and the age of the oldest of them; 0 when there are none.';

CREATE TABLE posts (
    post_id        uuid        NOT NULL,
    thread_id      uuid        NOT NULL,
    novel_id       uuid        NOT NULL,
    integration_id uuid        NOT NULL,
    author_id      uuid,
    parent_post_id uuid,
    chapter_number numeric,
    content        text,
    written_at     timestamptz NOT NULL,
    recorded_at    timestamptz NOT NULL,
    event_id       text        NOT NULL,
    CONSTRAINT posts_pkey PRIMARY KEY (post_id),
    CONSTRAINT posts_erased_as_a_whole CHECK ((author_id IS NULL) = (content IS NULL))
);

COMMENT ON TABLE posts IS 'Projection: one row per imported comment. Rebuildable from events.';
COMMENT ON COLUMN posts.author_id IS 'See authors; NULL once the comment was erased.';
COMMENT ON COLUMN posts.content IS 'Plain text as delivered; NULL once the comment was erased.';
COMMENT ON COLUMN posts.recorded_at IS 'When the comment was received.';
COMMENT ON COLUMN posts.event_id IS 'Idempotency-Key under which the comment was delivered.';

-- Most batches update authors in place: room on the page keeps that out of the index.
CREATE TABLE authors (
    author_id                   uuid        NOT NULL,
    integration_id              uuid        NOT NULL,
    external_uuid               text        NOT NULL,
    display_name                text        NOT NULL,
    display_name_at             timestamptz NOT NULL,
    display_name_transaction_id xid8        NOT NULL,
    display_name_position       integer     NOT NULL,
    first_seen_at               timestamptz NOT NULL,
    CONSTRAINT authors_pkey PRIMARY KEY (author_id)
) WITH (fillfactor = 70);

COMMENT ON TABLE authors IS 'Projection: one row per partner''s user who has commented. Rebuildable from events.';
COMMENT ON COLUMN authors.external_uuid IS 'The partner''s identifier of the user.';
COMMENT ON COLUMN authors.display_name IS 'User name on the comment that was written last; of two written at the same instant, on the one later in the log.';
COMMENT ON COLUMN authors.display_name_at IS 'When that comment was written.';
COMMENT ON COLUMN authors.display_name_transaction_id IS 'Place of that comment in the log, with display_name_position.';
COMMENT ON COLUMN authors.first_seen_at IS 'When the first comment of the author was received, however old it was then.';

CREATE SCHEMA analytics;
COMMENT ON SCHEMA analytics IS 'Read models for analysts. Columns are only ever added.';

CREATE VIEW analytics.posts AS
SELECT post_id, thread_id, novel_id, integration_id, author_id, parent_post_id, chapter_number, content, written_at,
       recorded_at AS received_at, event_id AS idempotency_key
FROM posts;

COMMENT ON VIEW analytics.posts IS 'One row per imported comment.';
COMMENT ON COLUMN analytics.posts.post_id IS 'The comment, as the API returned it (postId).';
COMMENT ON COLUMN analytics.posts.thread_id IS 'Discussion thread that the comment is in.';
COMMENT ON COLUMN analytics.posts.novel_id IS 'Novel that the thread discusses.';
COMMENT ON COLUMN analytics.posts.integration_id IS 'Partner integration that delivered the comment.';
COMMENT ON COLUMN analytics.posts.author_id IS 'Who wrote it: analytics.authors.author_id. NULL once the comment was erased.';
COMMENT ON COLUMN analytics.posts.parent_post_id IS 'Comment that this one replies to; NULL when top-level.';
COMMENT ON COLUMN analytics.posts.chapter_number IS 'Chapter, exact decimal; 0 is the prologue; NULL for a comment on the novel as a whole.';
COMMENT ON COLUMN analytics.posts.content IS 'Plain text as delivered; NULL once the comment was erased.';
COMMENT ON COLUMN analytics.posts.written_at IS 'When the comment was written, according to the partner; time of receipt if the partner did not say.';
COMMENT ON COLUMN analytics.posts.received_at IS 'When the comment was received.';
COMMENT ON COLUMN analytics.posts.idempotency_key IS 'Idempotency-Key of the delivery: the partner''s own identifier of the comment.';

CREATE VIEW analytics.authors AS
SELECT author_id, integration_id, external_uuid, display_name, display_name_at, first_seen_at
FROM authors;

COMMENT ON VIEW analytics.authors IS 'One row per partner''s user who has commented.';
COMMENT ON COLUMN analytics.authors.author_id IS 'The author; derived from integration_id and external_uuid.';
COMMENT ON COLUMN analytics.authors.integration_id IS 'Partner integration whose user the author is.';
COMMENT ON COLUMN analytics.authors.external_uuid IS 'The partner''s identifier of the user (uuid).';
COMMENT ON COLUMN analytics.authors.display_name IS 'User name on the comment that was written last.';
COMMENT ON COLUMN analytics.authors.display_name_at IS 'When that comment was written.';
COMMENT ON COLUMN analytics.authors.first_seen_at IS 'When the first comment of the author was received, however old it was then.';

-- +goose Down
DROP SCHEMA analytics CASCADE;
DROP TABLE authors;
DROP TABLE posts;
DROP FUNCTION projection_lag;
ALTER TABLE projections DROP COLUMN unknown_type;
