-- Tables of the peer. They have no foreign keys, which would cost time, and which the event log does not have either.
CREATE TABLE novels (
    novel_id   uuid        NOT NULL PRIMARY KEY,
    title      text        NOT NULL,
    slug       text        NOT NULL UNIQUE,
    author     text        NOT NULL DEFAULT 'Unknown',
    created_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX novels_title ON novels (lower(title));

CREATE TABLE threads (
    thread_id uuid NOT NULL PRIMARY KEY,
    novel_id  uuid NOT NULL UNIQUE
);

CREATE TABLE posts (
    post_id         uuid        NOT NULL PRIMARY KEY,
    integration_id  uuid        NOT NULL,
    idempotency_key text        NOT NULL,
    thread_id       uuid        NOT NULL,
    parent_post_id  uuid,
    author_uuid     text        NOT NULL,
    username        text        NOT NULL,
    chapter_number  numeric,
    content         text        NOT NULL,
    written_at      timestamptz NOT NULL,
    received_at     timestamptz NOT NULL,
    UNIQUE (integration_id, idempotency_key)
);
