-- The memory outside of the database that signs for an origin of the ledger. See docs/ledger.md, "The memory".

-- +goose Up
CREATE TABLE ledger_memories (
    origin   text        NOT NULL PRIMARY KEY REFERENCES ledger_origins (origin),
    memory   uuid        NOT NULL,
    bound_at timestamptz NOT NULL
);

COMMENT ON TABLE ledger_memories IS 'The memory outside of the database that signs for an origin. It never changes: without it, the origin cannot be signed any more.';
COMMENT ON COLUMN ledger_memories.origin IS 'Origin line of the checkpoints.';
COMMENT ON COLUMN ledger_memories.memory IS 'Random id of the memory, which is in its file id.';
COMMENT ON COLUMN ledger_memories.bound_at IS 'When a replica first used the memory.';

CREATE TRIGGER ledger_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_memories FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only();
ALTER TABLE ledger_memories ENABLE ALWAYS TRIGGER ledger_append_only;

ALTER TABLE ledger_checkpoints ADD COLUMN memory uuid;
COMMENT ON COLUMN ledger_checkpoints.memory IS 'Memory outside of the database that stored the checkpoint before this row; NULL if it is older than memories.';

-- A trigger instead of a foreign key: older programs sign without a memory, and must fail.
-- +goose StatementBegin
CREATE FUNCTION ledger_checkpoint_is_remembered() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM ledger_memories WHERE origin = NEW.origin AND memory = NEW.memory) THEN
        RAISE EXCEPTION 'a checkpoint of % is refused: it does not come through the memory of this origin', NEW.origin
            USING ERRCODE = 'restrict_violation',
                  HINT = 'A replica of an older version cannot sign any more. In docs/ledger.md: "The memory".';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION ledger_checkpoint_is_remembered IS 'Refuses a checkpoint that was not stored in the memory of its origin first.';
CREATE TRIGGER ledger_checkpoint_is_remembered BEFORE INSERT ON ledger_checkpoints FOR EACH ROW EXECUTE FUNCTION ledger_checkpoint_is_remembered();
ALTER TABLE ledger_checkpoints ENABLE ALWAYS TRIGGER ledger_checkpoint_is_remembered;

-- +goose Down
DROP TRIGGER ledger_checkpoint_is_remembered ON ledger_checkpoints;
DROP FUNCTION ledger_checkpoint_is_remembered;
ALTER TABLE ledger_checkpoints DROP COLUMN memory;
DROP TABLE ledger_memories;
