-- Moderation: what staff decided about authors and posts.

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
-- The committer asks for every comment, and nearly nobody is blocked.
CREATE INDEX author_decisions_blocked_idx ON author_decisions (author_id) WHERE blocked;
-- Staff page through the authors of an integration.
CREATE INDEX author_decisions_external_idx ON author_decisions (integration_id, external_uuid COLLATE "C");
CREATE INDEX authors_external_idx ON authors (integration_id, external_uuid COLLATE "C");

COMMENT ON TABLE author_decisions IS 'Inline projection: authors about whom staff have decided something, whether they have commented or not. Rebuildable from events.';
COMMENT ON COLUMN author_decisions.author_id IS 'The author, as in authors; derived from integration_id and external_uuid.';
COMMENT ON COLUMN author_decisions.integration_id IS 'Partner integration whose user the author is.';
COMMENT ON COLUMN author_decisions.external_uuid IS 'The partner''s identifier of the user; NULL once erased.';
COMMENT ON COLUMN author_decisions.member_id IS 'Member of the host platform to whom the author''s comments are attributed; NULL while they are the partner platform''s.';
COMMENT ON COLUMN author_decisions.blocked IS 'Whether comments of the author are refused.';
COMMENT ON COLUMN author_decisions.posts_hidden_until IS 'Comments of the author that were received up to then are hidden, except those restored since; NULL when none are. See post_is_hidden.';
COMMENT ON COLUMN author_decisions.stream_version IS 'Version of the author''s stream that the row reflects.';

ALTER TABLE posts
    ADD COLUMN hidden boolean NOT NULL DEFAULT false,
    ADD COLUMN moderated_at timestamptz,
    ADD COLUMN moderated_version integer;

COMMENT ON COLUMN posts.hidden IS 'Whether staff hid this comment by itself. Whether readers see it: post_is_hidden.';
COMMENT ON COLUMN posts.moderated_at IS 'When staff last hid or restored this comment by itself; NULL when they never did.';
COMMENT ON COLUMN posts.moderated_version IS 'Version of the post''s stream that hidden and moderated_at reflect; NULL when staff never decided.';

COMMENT ON COLUMN events.stream_type IS 'Kind of aggregate: novel, thread, post, author, integration, person.';

-- The one definition for all readers. SQL and of one expression, so that it becomes a part of the query.
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

CREATE OR REPLACE VIEW analytics.posts AS
SELECT p.post_id, p.thread_id, p.novel_id, p.integration_id, p.author_id, p.parent_post_id, p.chapter_number,
       CASE WHEN NOT post_is_hidden(p.hidden, p.moderated_at, p.recorded_at, d.posts_hidden_until) THEN p.content END AS content,
       p.written_at, p.recorded_at AS received_at, p.event_id AS idempotency_key,
       post_is_hidden(p.hidden, p.moderated_at, p.recorded_at, d.posts_hidden_until) AS hidden, d.member_id
FROM posts p
LEFT JOIN author_decisions d ON d.author_id = p.author_id;

COMMENT ON COLUMN analytics.posts.content IS 'Plain text as delivered; NULL while staff hide the comment, and once it was erased.';
COMMENT ON COLUMN analytics.posts.hidden IS 'Whether staff hide the comment from readers, by itself or with all of its author''s.';
COMMENT ON COLUMN analytics.posts.member_id IS 'Member of the host platform to whom the comment is attributed; NULL while it is attributed to the partner platform. Follows the author''s link at once, for old comments too.';

CREATE OR REPLACE VIEW analytics.authors AS
SELECT a.author_id, a.integration_id, a.external_uuid, a.display_name, a.display_name_at, a.first_seen_at,
       d.member_id, coalesce(d.blocked, false) AS blocked
FROM authors a
LEFT JOIN author_decisions d ON d.author_id = a.author_id;

COMMENT ON COLUMN analytics.authors.member_id IS 'Member of the host platform to whom staff linked the author; NULL when not linked.';
COMMENT ON COLUMN analytics.authors.blocked IS 'Whether comments of the author are refused.';

-- +goose Down
DROP VIEW analytics.authors;
DROP VIEW analytics.posts;
CREATE VIEW analytics.posts AS
SELECT post_id, thread_id, novel_id, integration_id, author_id, parent_post_id, chapter_number, content, written_at,
       recorded_at AS received_at, event_id AS idempotency_key
FROM posts;
CREATE VIEW analytics.authors AS
SELECT author_id, integration_id, external_uuid, display_name, display_name_at, first_seen_at
FROM authors;
DROP FUNCTION post_is_hidden;
ALTER TABLE posts DROP COLUMN hidden, DROP COLUMN moderated_at, DROP COLUMN moderated_version;
DROP INDEX authors_external_idx;
DROP TABLE author_decisions;
