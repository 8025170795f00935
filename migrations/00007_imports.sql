-- Bulk imports of partners: lines wait in a spool until a worker has executed them. Lines are personal data; see docs/imports.md.

-- +goose Up
CREATE TABLE imports (
    import_id       uuid        NOT NULL PRIMARY KEY,
    integration_id  uuid        NOT NULL,
    idempotency_key text        NOT NULL,
    key_id          uuid        NOT NULL,
    state           text        NOT NULL CHECK (state IN ('open', 'processing', 'completed', 'cancelled', 'failed')),
    lines           bigint      NOT NULL DEFAULT 0,
    created         bigint      NOT NULL DEFAULT 0,
    updated         bigint      NOT NULL DEFAULT 0,
    unchanged       bigint      NOT NULL DEFAULT 0,
    replayed        bigint      NOT NULL DEFAULT 0,
    failed          bigint      NOT NULL DEFAULT 0,
    waiting         bigint      NOT NULL DEFAULT 0,
    parent_missing  bigint      NOT NULL DEFAULT 0,
    round           bigint      NOT NULL DEFAULT 0,
    progress        bigint      NOT NULL DEFAULT 0,
    stalls          integer     NOT NULL DEFAULT 0,
    final           boolean     NOT NULL DEFAULT false,
    announced       boolean     NOT NULL DEFAULT false,
    spooled         bigint      NOT NULL DEFAULT 0,
    rate            double precision NOT NULL DEFAULT 0,
    measured_lines  bigint      NOT NULL DEFAULT 0,
    measured_at     timestamptz NOT NULL DEFAULT now(),
    opened_at       timestamptz NOT NULL DEFAULT now(),
    changed_at      timestamptz NOT NULL DEFAULT now(),
    advanced_at     timestamptz NOT NULL DEFAULT now(),
    worked_at       timestamptz NOT NULL DEFAULT '-infinity',
    resume_at       timestamptz NOT NULL DEFAULT '-infinity',
    ended_at        timestamptz,
    purged_at       timestamptz,
    CONSTRAINT imports_key UNIQUE (integration_id, idempotency_key),
    CONSTRAINT imports_ended CHECK ((ended_at IS NULL) = (state IN ('open', 'processing')))
);
CREATE INDEX imports_listed ON imports (integration_id, opened_at, import_id);
CREATE INDEX imports_active ON imports (worked_at, import_id) WHERE state IN ('open', 'processing');
CREATE INDEX imports_spooled ON imports (ended_at) WHERE ended_at IS NOT NULL AND purged_at IS NULL;
CREATE INDEX imports_unannounced ON imports (ended_at) WHERE state = 'completed' AND purged_at IS NULL AND NOT announced;

COMMENT ON TABLE imports IS 'Bulk imports. Not derived from events; holds no personal data.';
COMMENT ON COLUMN imports.idempotency_key IS 'Idempotency-Key of the request that opened the import.';
COMMENT ON COLUMN imports.key_id IS 'API key of that request.';
COMMENT ON COLUMN imports.state IS 'open: accepts lines; processing: complete, and lines have no outcome yet; completed; cancelled by the partner; failed: abandoned.';
COMMENT ON COLUMN imports.lines IS 'Lines in the spool: the offset of the next part. The following columns count lines by outcome.';
COMMENT ON COLUMN imports.unchanged IS 'Upserts of novels that the integration does not own.';
COMMENT ON COLUMN imports.waiting IS 'Replies whose parent is not stored yet.';
COMMENT ON COLUMN imports.parent_missing IS 'Comments stored top-level because their parent is unknown in the discussion. Counted in created as well.';
COMMENT ON COLUMN imports.round IS 'Rounds over the chunks: round 0 executes the lines, later ones the waiting replies.';
COMMENT ON COLUMN imports.progress IS 'Lines that got their outcome in this round.';
COMMENT ON COLUMN imports.stalls IS 'Consecutive rounds without progress.';
COMMENT ON COLUMN imports.final IS 'In this round replies do not wait for a parent that is neither stored nor waiting.';
COMMENT ON COLUMN imports.announced IS 'Whether import.completed.v1 is on record.';
COMMENT ON COLUMN imports.spooled IS 'Bytes that its lines take in the spool, until purged_at. Measured again at the end of the import.';
COMMENT ON COLUMN imports.rate IS 'Latest measured rate: lines with a new outcome per second.';
COMMENT ON COLUMN imports.measured_lines IS 'Lines with an outcome at measured_at.';
COMMENT ON COLUMN imports.changed_at IS 'Latest request or outcome; an import without any for the retention time fails.';
COMMENT ON COLUMN imports.advanced_at IS 'Start of the round.';
COMMENT ON COLUMN imports.worked_at IS 'End of the latest visit of a worker, also if no line got an outcome. Workers take the integration, and of its imports the one, that has waited longest.';
COMMENT ON COLUMN imports.resume_at IS 'The limit of lines per minute is used up until this time.';
COMMENT ON COLUMN imports.purged_at IS 'When its lines and results were deleted.';

CREATE TABLE import_parts (
    import_id  uuid   NOT NULL REFERENCES imports,
    first_line bigint NOT NULL,
    lines      bigint NOT NULL,
    sha256     bytea  NOT NULL CHECK (length(sha256) = 32),
    PRIMARY KEY (import_id, first_line)
);
COMMENT ON TABLE import_parts IS 'Parts that are stored completely, to recognize a part that is sent again.';
COMMENT ON COLUMN import_parts.first_line IS 'Offset of the part: the number of lines before it.';
COMMENT ON COLUMN import_parts.sha256 IS 'SHA-256 of its uncompressed lines.';

CREATE TABLE import_chunks (
    import_id    uuid        NOT NULL REFERENCES imports,
    first_line   bigint      NOT NULL,
    lines        integer     NOT NULL,
    turn         bigint      NOT NULL,
    unsettled    integer     NOT NULL,
    failed       integer     NOT NULL DEFAULT 0,
    ordered      boolean     NOT NULL,
    received_at  timestamptz NOT NULL DEFAULT now(),
    holder       uuid,
    leased_until timestamptz,
    body         bytea       NOT NULL,
    results      bytea       NOT NULL DEFAULT '',
    PRIMARY KEY (import_id, first_line)
);
-- The bodies are compressed already.
ALTER TABLE import_chunks ALTER COLUMN body SET STORAGE EXTERNAL, ALTER COLUMN results SET STORAGE EXTERNAL;
CREATE INDEX import_chunks_turn ON import_chunks (import_id, turn) WHERE unsettled > 0;

COMMENT ON TABLE import_chunks IS 'The spool: up to a thousand lines each, with their outcomes. Deleted some days after the end of the import.';
COMMENT ON COLUMN import_chunks.first_line IS 'Lines of the import before the chunk.';
COMMENT ON COLUMN import_chunks.turn IS 'Place in the order of work: first_line at first; in later rounds 2^40 times the round, plus a place in it.';
COMMENT ON COLUMN import_chunks.unsettled IS 'Lines without an outcome.';
COMMENT ON COLUMN import_chunks.failed IS 'Lines that failed.';
COMMENT ON COLUMN import_chunks.ordered IS 'Whether it holds upserts of novels, which are executed in the order of the import.';
COMMENT ON COLUMN import_chunks.received_at IS 'Time of receipt: the time of comments without a timestamp.';
COMMENT ON COLUMN import_chunks.holder IS 'The worker that holds the lease; NULL for none.';
COMMENT ON COLUMN import_chunks.leased_until IS 'Then any worker may take the chunk.';
COMMENT ON COLUMN import_chunks.body IS 'Personal data: the lines, as zstd of NDJSON. A line that was stored is empty.';
COMMENT ON COLUMN import_chunks.results IS 'Outcomes in the order of lines, as zstd of NDJSON.';

CREATE TABLE import_waiting (
    import_id      uuid   NOT NULL,
    first_line     bigint NOT NULL,
    line           bigint NOT NULL,
    post_id        uuid   NOT NULL,
    parent_post_id uuid,
    PRIMARY KEY (import_id, first_line, line)
);
CREATE INDEX import_waiting_post ON import_waiting (import_id, post_id);

COMMENT ON TABLE import_waiting IS 'Replies that wait for their parent.';
COMMENT ON COLUMN import_waiting.first_line IS 'The chunk of the line.';
COMMENT ON COLUMN import_waiting.parent_post_id IS 'NULL: waits for nothing, because the replies form a cycle.';

-- +goose Down
DROP TABLE import_waiting, import_chunks, import_parts, imports;
