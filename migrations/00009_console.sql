-- What the console keeps. None of it is part of the history: decisions are events, as over the API.

-- +goose Up
CREATE TABLE console_sessions (
    token_hash bytea       NOT NULL PRIMARY KEY CHECK (length(token_hash) = 32),
    key_id     uuid        NOT NULL,
    began_at   timestamptz NOT NULL DEFAULT statement_timestamp(),
    ends_at    timestamptz NOT NULL,
    notice     json,
    undo       json,
    changed_at timestamptz
);

COMMENT ON TABLE console_sessions IS 'Persons who are signed in to the console. The end of a session, or of its key, ends it at once. Not part of the history.';
COMMENT ON COLUMN console_sessions.token_hash IS 'SHA-256 of the token in the cookie of the browser.';
COMMENT ON COLUMN console_sessions.notice IS 'Outcome of the latest action, which the next page shows; NULL once it has.';
COMMENT ON COLUMN console_sessions.undo IS 'How to take the latest decision back; NULL: there is nothing to undo.';
COMMENT ON COLUMN console_sessions.changed_at IS 'When notice or undo were last set. A quarter of an hour later they are forgotten: both may name a person.';

CREATE TABLE console_claims (
    item_id    uuid        NOT NULL PRIMARY KEY,
    person_id  uuid        NOT NULL,
    name       text        NOT NULL,
    ends_at    timestamptz NOT NULL
);

COMMENT ON TABLE console_claims IS 'Items of a queue that somebody is deciding about, so that nobody else is given them. Not part of the history.';
COMMENT ON COLUMN console_claims.item_id IS 'The comment or the novel.';
COMMENT ON COLUMN console_claims.ends_at IS 'When others are given the item again.';

CREATE TABLE console_notes (
    note_id    bigint      NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    form_id    uuid        NOT NULL UNIQUE,
    subject_id uuid        NOT NULL,
    written_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    name       text        NOT NULL,
    content    text        NOT NULL CHECK (length(content) BETWEEN 1 AND 2000)
);
CREATE INDEX console_notes_subject ON console_notes (subject_id, note_id);

COMMENT ON TABLE console_notes IS 'Notes of staff for each other. Those about a comment that was withdrawn, or an author who was erased, are deleted within a minute. Not part of the history.';
COMMENT ON COLUMN console_notes.form_id IS 'Identifies the form, so that sending it twice adds one note.';
COMMENT ON COLUMN console_notes.subject_id IS 'The comment, author, novel or integration.';
COMMENT ON COLUMN console_notes.name IS 'Who wrote it.';

-- +goose Down
DROP TABLE console_notes, console_claims, console_sessions;
