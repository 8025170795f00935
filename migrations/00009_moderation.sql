-- Moderation: decisions of staff about authors and posts.

-- +goose Up
CREATE TABLE author_decisions (
    author_id          uuid    NOT NULL PRIMARY KEY,
    integration_id     uuid    NOT NULL,
    external_uuid      text,
    member_id          text,
    blocked            boolean NOT NULL DEFAULT false,
    posts_hidden_until timestamptz,
    stream_version     integer NOT NULL
);
-- The committer reads it for every comment, and few authors are blocked.
CREATE INDEX author_decisions_blocked_idx ON author_decisions (author_id) WHERE blocked;
-- For the list of an integration's authors.
CREATE INDEX author_decisions_external_idx ON author_decisions (integration_id, external_uuid COLLATE "C");
CREATE INDEX authors_external_idx ON authors (integration_id, external_uuid COLLATE "C");

COMMENT ON TABLE author_decisions IS 'Inline projection: authors with decisions of staff, with or without comments. Rebuildable from events.';
COMMENT ON COLUMN author_decisions.author_id IS 'The author, as in authors; derived from integration_id and external_uuid.';
COMMENT ON COLUMN author_decisions.integration_id IS 'Partner integration whose user the author is.';
COMMENT ON COLUMN author_decisions.external_uuid IS 'The partner''s identifier of the user; NULL once erased.';
COMMENT ON COLUMN author_decisions.member_id IS 'Member of the host platform to whom the author''s comments are attributed; NULL: the partner platform.';
COMMENT ON COLUMN author_decisions.blocked IS 'Whether comments of the author are refused.';
COMMENT ON COLUMN author_decisions.posts_hidden_until IS 'Comments of the author received up to this time are hidden, except those restored since; NULL: none. See post_is_hidden.';
COMMENT ON COLUMN author_decisions.stream_version IS 'Version of the author''s stream that the row reflects.';

COMMENT ON COLUMN events.stream_type IS 'Kind of aggregate: novel, thread, post, author, integration, person.';

-- The only definition, for all readers. A single SQL expression, so that the planner inlines it.
-- +goose StatementBegin
CREATE FUNCTION post_is_hidden(
    hidden             boolean,
    moderated_at       timestamptz,
    recorded_at        timestamptz,
    posts_hidden_until timestamptz
) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT hidden OR coalesce(posts_hidden_until >= recorded_at AND (moderated_at IS NULL OR moderated_at <= posts_hidden_until), false)
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION post_is_hidden IS 'Whether readers must not see a comment: hidden, moderated_at and recorded_at from posts, posts_hidden_until from author_decisions (NULL without a row). The latest decision holds.';

-- The planner removes the join from queries that select neither text nor key, because there is at most one event.
CREATE VIEW analytics.posts AS
SELECT p.post_id, p.thread_id, p.novel_id, p.integration_id, p.author_id, p.parent_post_id, p.chapter_number,
       CASE WHEN p.author_id IS NOT NULL AND NOT post_is_hidden(p.hidden, p.moderated_at, p.recorded_at, d.posts_hidden_until)
            THEN e.personal ->> 'content' END AS content,
       p.written_at, p.recorded_at AS received_at, e.event_id AS idempotency_key,
       post_is_hidden(p.hidden, p.moderated_at, p.recorded_at, d.posts_hidden_until) AS hidden, d.member_id, p.depth
FROM posts p
LEFT JOIN author_decisions d ON d.author_id = p.author_id
LEFT JOIN events e ON e.stream_id = p.post_id AND e.stream_version = 1;

COMMENT ON VIEW analytics.posts IS 'One row per imported comment. Projection: posts.';
COMMENT ON COLUMN analytics.posts.post_id IS 'The comment, as the API returned it (postId).';
COMMENT ON COLUMN analytics.posts.thread_id IS 'Discussion thread that the comment is in.';
COMMENT ON COLUMN analytics.posts.novel_id IS 'Novel that the thread discusses.';
COMMENT ON COLUMN analytics.posts.integration_id IS 'Partner integration that delivered the comment.';
COMMENT ON COLUMN analytics.posts.author_id IS 'Who wrote it: analytics.authors.author_id. NULL once the comment was erased.';
COMMENT ON COLUMN analytics.posts.parent_post_id IS 'Comment that this one replies to; NULL when top-level.';
COMMENT ON COLUMN analytics.posts.chapter_number IS 'Chapter, exact decimal; 0 is the prologue; NULL for a comment on the novel as a whole.';
COMMENT ON COLUMN analytics.posts.written_at IS 'When the comment was written, according to the partner; time of receipt if the partner did not say.';
COMMENT ON COLUMN analytics.posts.received_at IS 'When the comment was received.';
COMMENT ON COLUMN analytics.posts.idempotency_key IS 'Idempotency-Key of the delivery: the partner''s own identifier of the comment.';
COMMENT ON COLUMN analytics.posts.content IS 'Plain text as delivered; NULL while staff hide the comment, and once it was erased.';
COMMENT ON COLUMN analytics.posts.hidden IS 'Whether staff hide the comment from readers, by itself or with all of its author''s.';
COMMENT ON COLUMN analytics.posts.member_id IS 'Member of the host platform to whom the comment is attributed; NULL while it is attributed to the partner platform. Follows the author''s link at once, for old comments too.';
COMMENT ON COLUMN analytics.posts.depth IS 'How many replies up the top-level comment is: 0 for that itself, 1 for an answer to it.';

CREATE VIEW analytics.authors AS
SELECT a.author_id, a.integration_id, a.external_uuid, a.display_name, a.display_name_at, a.first_seen_at,
       d.member_id, coalesce(d.blocked, false) AS blocked
FROM authors a
LEFT JOIN author_decisions d ON d.author_id = a.author_id;

COMMENT ON VIEW analytics.authors IS 'One row per partner''s user who has commented. Projection: authors.';
COMMENT ON COLUMN analytics.authors.author_id IS 'The author; derived from integration_id and external_uuid.';
COMMENT ON COLUMN analytics.authors.integration_id IS 'Partner integration whose user the author is.';
COMMENT ON COLUMN analytics.authors.external_uuid IS 'The partner''s identifier of the user (uuid).';
COMMENT ON COLUMN analytics.authors.display_name IS 'User name on the comment that was written last.';
COMMENT ON COLUMN analytics.authors.display_name_at IS 'When that comment was written.';
COMMENT ON COLUMN analytics.authors.first_seen_at IS 'When the first comment of the author was received, however old it was then.';
COMMENT ON COLUMN analytics.authors.member_id IS 'Member of the host platform to whom staff linked the author; NULL when not linked.';
COMMENT ON COLUMN analytics.authors.blocked IS 'Whether comments of the author are refused.';

-- +goose Down
DROP VIEW analytics.authors;
DROP VIEW analytics.posts;
DROP FUNCTION post_is_hidden;
DROP INDEX authors_external_idx;
DROP TABLE author_decisions;
