-- Rebuilds of projections beside the live tables, and their results.

-- +goose Up
COMMENT ON COLUMN projections.generation IS 'Generation of the code that writes the live tables. Replicas with code of another generation do not write them.';

CREATE TABLE projection_rebuilds (
    name         text        NOT NULL PRIMARY KEY,
    build        integer     NOT NULL CHECK (build > 1),
    generation   integer     NOT NULL CHECK (generation > 0),
    structure    text        NOT NULL,
    builder      uuid        NOT NULL,
    position     bigint      NOT NULL CHECK (position >= 0),
    events_total bigint      NOT NULL,
    started_at   timestamptz NOT NULL,
    finished_at  timestamptz,
    error        text
);

COMMENT ON TABLE projection_rebuilds IS 'The latest rebuild of each projection. An interrupted one continues from here.';
COMMENT ON COLUMN projection_rebuilds.build IS 'Number of builds of the tables, including this one; <name>_<build> is the schema of the new tables.';
COMMENT ON COLUMN projection_rebuilds.generation IS 'Generation of the code that builds.';
COMMENT ON COLUMN projection_rebuilds.structure IS 'Digest of the structure of the live tables; if a migration changes it, the build starts again.';
COMMENT ON COLUMN projection_rebuilds.builder IS 'The process that builds. A process that takes over writes its own id, which stops the earlier one.';
COMMENT ON COLUMN projection_rebuilds.position IS 'Number of events in the new tables: those with a smaller log_index.';
COMMENT ON COLUMN projection_rebuilds.events_total IS 'Events in the log at the start of the rebuild.';
COMMENT ON COLUMN projection_rebuilds.finished_at IS 'When the new tables became the live ones; NULL before.';
COMMENT ON COLUMN projection_rebuilds.error IS 'Error that ended the latest attempt before the switch.';

-- +goose Down
DROP TABLE projection_rebuilds;
