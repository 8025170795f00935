-- The inline projections of titles, threads and the decisions of staff about authors.

-- +goose Up
CREATE TABLE title_lookup (
    folded_title   text COLLATE "C" NOT NULL CHECK (folded_title <> ''),
    novel_id       uuid NOT NULL,
    slug           text COLLATE "C" NOT NULL CHECK (slug <> ''),
    title          text NOT NULL,
    state          text NOT NULL CHECK (state IN ('pending', 'approved', 'published', 'rejected', 'free')),
    owner_id       uuid,
    stream_version integer NOT NULL CHECK (stream_version > 0),
    details        jsonb NOT NULL,
    CONSTRAINT title_lookup_pkey PRIMARY KEY (folded_title),
    CONSTRAINT title_lookup_novel_key UNIQUE (novel_id),
    CONSTRAINT title_lookup_slug_key UNIQUE (slug),
    CONSTRAINT title_lookup_published_is_host CHECK (state <> 'published' OR owner_id IS NULL),
    CONSTRAINT title_lookup_free_is_nobodys CHECK (state <> 'free' OR owner_id IS NULL)
) WITH (fillfactor = 80);

CREATE INDEX title_lookup_pending ON title_lookup (novel_id) WHERE state = 'pending';

COMMENT ON TABLE title_lookup IS 'Inline projection: folded title to novel. Rebuildable from events. A row without a novel: state free, or rejected without an owner.';
COMMENT ON COLUMN title_lookup.state IS 'pending, approved, published or rejected; free: staff approved a barred title, so there is no novel.';
COMMENT ON COLUMN title_lookup.owner_id IS 'Integration that owns the novel; NULL for the host platform (published) and without a novel (free, or barred).';
COMMENT ON COLUMN title_lookup.stream_version IS 'Version of the novel''s stream that this row reflects.';
COMMENT ON COLUMN title_lookup.details IS 'Current author, synopsis, coverUrl, genres, language, readingStatus, with which an update is compared.';

CREATE TABLE threads (
    novel_id  uuid NOT NULL,
    thread_id uuid NOT NULL,
    CONSTRAINT threads_pkey PRIMARY KEY (novel_id),
    CONSTRAINT threads_thread_key UNIQUE (thread_id)
);

COMMENT ON TABLE threads IS 'Inline projection: the one discussion thread of a novel. Rebuildable from events.';

CREATE TABLE author_decisions (
    author_id          uuid    NOT NULL PRIMARY KEY,
    integration_id     uuid    NOT NULL,
    external_uuid      text,
    member_id          text,
    blocked            boolean NOT NULL DEFAULT false,
    posts_hidden_until timestamptz
);
-- The committer reads it for every comment, and few authors are blocked.
CREATE INDEX author_decisions_blocked_idx ON author_decisions (author_id) WHERE blocked;
-- For the list of an integration's authors.
CREATE INDEX author_decisions_external_idx ON author_decisions (integration_id, external_uuid COLLATE "C");

COMMENT ON TABLE author_decisions IS 'Inline projection: authors with decisions of staff, with or without comments. Rebuildable from events.';
COMMENT ON COLUMN author_decisions.author_id IS 'The author, as in authors.';
COMMENT ON COLUMN author_decisions.integration_id IS 'Partner integration whose user the author is.';
COMMENT ON COLUMN author_decisions.external_uuid IS 'The partner''s identifier of the user; NULL after erasure, until a new decision.';
COMMENT ON COLUMN author_decisions.member_id IS 'Member of the host platform to whom the author''s comments are attributed; NULL: the partner platform.';
COMMENT ON COLUMN author_decisions.blocked IS 'Whether comments of the author are refused. An erasure does not change it.';
COMMENT ON COLUMN author_decisions.posts_hidden_until IS 'Comments of the author received up to this time are hidden, except those restored since; NULL: none. See post_is_hidden.';

-- +goose Down
DROP TABLE author_decisions, threads;
DROP TABLE title_lookup;
