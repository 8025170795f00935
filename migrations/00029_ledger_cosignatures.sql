-- Cosignatures of witnesses. See docs/ledger.md, "Witnesses".

-- +goose Up
CREATE TABLE ledger_cosignatures (
    origin      text        NOT NULL,
    tree_size   bigint      NOT NULL,
    witness     text        NOT NULL,
    signature   text        NOT NULL,
    quorum      integer     NOT NULL CHECK (quorum > 0),
    cosigned_at timestamptz NOT NULL,
    CONSTRAINT ledger_cosignatures_pkey PRIMARY KEY (origin, tree_size, witness),
    CONSTRAINT ledger_cosignatures_checkpoint FOREIGN KEY (origin, tree_size) REFERENCES ledger_checkpoints (origin, tree_size)
);
CREATE INDEX ledger_cosignatures_of ON ledger_cosignatures (origin, witness, tree_size);

COMMENT ON TABLE ledger_cosignatures IS 'Cosignatures of witnesses on checkpoints, which are served with them.';
COMMENT ON COLUMN ledger_cosignatures.origin IS 'Origin line of the checkpoint.';
COMMENT ON COLUMN ledger_cosignatures.tree_size IS 'Number of entries that the checkpoint covers.';
COMMENT ON COLUMN ledger_cosignatures.witness IS 'Public key of the witness (C2SP signed-note).';
COMMENT ON COLUMN ledger_cosignatures.signature IS 'Signature line of the note, with its line feed, verified with that key.';
COMMENT ON COLUMN ledger_cosignatures.quorum IS 'Quorum of the replica that requested this cosignature. A checkpoint with as many cosignatures has reached the quorum.';
COMMENT ON COLUMN ledger_cosignatures.cosigned_at IS 'When it was stored, by the clock of the database.';

CREATE TRIGGER ledger_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_cosignatures FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only();
ALTER TABLE ledger_cosignatures ENABLE ALWAYS TRIGGER ledger_append_only;

-- +goose Down
DROP TABLE ledger_cosignatures;
