-- Rebuilds of projections beside the live tables, and their results.

-- +goose Up
COMMENT ON COLUMN projections.generation IS 'Generation of the code that writes the live tables. Replicas with code of another generation do not write them.';

CREATE TABLE projection_rebuilds (
    name           text        NOT NULL PRIMARY KEY,
    build          integer     NOT NULL CHECK (build > 1),
    generation     integer     NOT NULL CHECK (generation > 0),
    phase          text        NOT NULL CHECK (phase IN ('loading', 'indexing', 'following', 'finished')),
    structure      text        NOT NULL,
    builder        uuid        NOT NULL,
    transaction_id xid8        NOT NULL,
    position       integer     NOT NULL,
    target_transaction_id xid8 NOT NULL,
    target_position integer    NOT NULL,
    events_done    bigint      NOT NULL,
    events_total   bigint      NOT NULL,
    started_at     timestamptz NOT NULL,
    finished_at    timestamptz,
    error          text,
    CONSTRAINT projection_rebuilds_finished_at_the_end CHECK ((phase = 'finished') = (finished_at IS NOT NULL))
);

COMMENT ON TABLE projection_rebuilds IS 'The latest rebuild of each projection. An interrupted one continues from here.';
COMMENT ON COLUMN projection_rebuilds.build IS 'Number of builds of the tables, including this one; <name>_<build> is the schema of the new tables.';
COMMENT ON COLUMN projection_rebuilds.generation IS 'Generation of the code that builds.';
COMMENT ON COLUMN projection_rebuilds.phase IS 'loading: old events, in ranges. indexing: the loaded rows. following: the events since, until the switch. finished: the new tables are the live ones.';
COMMENT ON COLUMN projection_rebuilds.structure IS 'Digest of the structure of the live tables; if a migration changes it, the build starts again.';
COMMENT ON COLUMN projection_rebuilds.builder IS 'The process that builds. A process that takes over writes its own id, which stops the earlier one.';
COMMENT ON COLUMN projection_rebuilds.transaction_id IS 'Last event in the new tables while following, with position.';
COMMENT ON COLUMN projection_rebuilds.target_transaction_id IS 'Last event to load in ranges, with target_position; later ones are followed.';
COMMENT ON COLUMN projection_rebuilds.events_done IS 'Events applied while following; projection_rebuild_ranges has the loaded ones.';
COMMENT ON COLUMN projection_rebuilds.events_total IS 'Events in the log at the start of the rebuild.';
COMMENT ON COLUMN projection_rebuilds.error IS 'Error that ended the latest attempt before the switch.';

CREATE TABLE projection_rebuild_ranges (
    name                text    NOT NULL REFERENCES projection_rebuilds (name) ON DELETE CASCADE,
    from_transaction_id xid8    NOT NULL,
    from_position       integer NOT NULL,
    to_transaction_id   xid8    NOT NULL,
    to_position         integer NOT NULL,
    events              integer NOT NULL,
    PRIMARY KEY (name, to_transaction_id, to_position)
);

COMMENT ON TABLE projection_rebuild_ranges IS 'Parts of the log that a rebuild has loaded: after "from", up to and including "to".';

CREATE TABLE projection_rebuild_rest (
    name           text    NOT NULL REFERENCES projection_rebuilds (name) ON DELETE CASCADE,
    transaction_id xid8    NOT NULL,
    position       integer NOT NULL,
    PRIMARY KEY (name, transaction_id, position)
);

COMMENT ON TABLE projection_rebuild_rest IS 'Events that a rebuild did not load because they change rows of others: applied in order after the load.';

-- +goose Down
DROP TABLE projection_rebuild_rest;
DROP TABLE projection_rebuild_ranges;
DROP TABLE projection_rebuilds;
