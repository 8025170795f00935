-- The ledger: a Merkle tree (RFC 6962) over the event log, in the layout of C2SP tlog-tiles. See docs/auditors.md.

-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION ledger_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% on % is refused: the ledger only grows', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation',
              HINT = 'Checkpoints have been signed over what is stored. To begin again, start a new origin.';
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION ledger_is_append_only IS 'Refuses every change of rows of the ledger.';

CREATE TABLE ledger_tiles (
    level      smallint NOT NULL CHECK (level BETWEEN 0 AND 7),
    first_node bigint   NOT NULL CHECK (first_node >= 0),
    hashes     bytea    NOT NULL CHECK (length(hashes) > 0 AND length(hashes) % 32 = 0),
    CONSTRAINT ledger_tiles_pkey PRIMARY KEY (level, first_node)
-- Rows never change, so vacuum freezes them once, early.
) WITH (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_freeze_min_age = 0);
ALTER TABLE ledger_tiles ALTER COLUMN hashes SET STORAGE EXTERNAL;

COMMENT ON TABLE ledger_tiles IS 'Merkle tree tiles of height 8, in pieces: a tile is the concatenation of the pieces from node 256 n on, up to 256 hashes.';
COMMENT ON COLUMN ledger_tiles.level IS 'Level of the tile: its hashes are those of complete subtrees of 256^level entries.';
COMMENT ON COLUMN ledger_tiles.first_node IS 'Number within the level of the first hash of the piece. A piece is within one tile.';
COMMENT ON COLUMN ledger_tiles.hashes IS 'SHA-256 hashes, 32 bytes each.';

CREATE TABLE ledger_state (
    the_only       boolean     NOT NULL PRIMARY KEY DEFAULT true CHECK (the_only),
    tree_size      bigint      NOT NULL CHECK (tree_size >= 0),
    root_hash      bytea       NOT NULL CHECK (length(root_hash) = 32),
    sealed_at      timestamptz NOT NULL,
    error          text,
    error_at       timestamptz,
    signing_error  text,
    verified_at    timestamptz NOT NULL DEFAULT statement_timestamp(),
    CONSTRAINT ledger_state_error_has_time CHECK ((error IS NULL) = (error_at IS NULL))
) WITH (fillfactor = 20); -- one row, rewritten with every seal

COMMENT ON TABLE ledger_state IS 'Checkpoint of the sealer, one row: the progress of the ledger. The active sealer locks the row.';
COMMENT ON COLUMN ledger_state.tree_size IS 'Number of entries: all log indexes below it are sealed.';
COMMENT ON COLUMN ledger_state.root_hash IS 'Merkle tree hash of those entries.';
COMMENT ON COLUMN ledger_state.sealed_at IS 'When the last event was sealed.';
COMMENT ON COLUMN ledger_state.error IS 'Error that stops the sealer; NULL without one. It retries every few seconds.';
COMMENT ON COLUMN ledger_state.error_at IS 'Time of its last attempt.';
COMMENT ON COLUMN ledger_state.signing_error IS 'Why a replica does not sign; NULL without one, and as soon as a replica signs again.';
COMMENT ON COLUMN ledger_state.verified_at IS 'When events verify last succeeded on this database; before that, when this row was made.';

-- The root of the empty tree is the SHA-256 of the empty string.
INSERT INTO ledger_state (tree_size, root_hash, sealed_at) VALUES (0, sha256(''), statement_timestamp());

-- +goose StatementBegin
CREATE FUNCTION ledger_state_only_grows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.tree_size < OLD.tree_size THEN
        RAISE EXCEPTION 'the ledger only grows: from % entries it cannot go to %', OLD.tree_size, NEW.tree_size USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.tree_size = OLD.tree_size AND NEW.root_hash IS DISTINCT FROM OLD.root_hash THEN
        RAISE EXCEPTION 'the ledger of % entries has another root already', OLD.tree_size USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.tree_size > OLD.tree_size AND NOT EXISTS (SELECT FROM events WHERE log_index = NEW.tree_size - 1) THEN
        RAISE EXCEPTION 'the log has no event for the last of % entries', NEW.tree_size USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION ledger_state_only_grows IS 'Refuses a tree that shrinks, that has two roots at one size, or that is larger than the log.';
CREATE TRIGGER ledger_state_only_grows BEFORE UPDATE ON ledger_state FOR EACH ROW EXECUTE FUNCTION ledger_state_only_grows();
CREATE TRIGGER ledger_state_stays BEFORE DELETE OR TRUNCATE ON ledger_state FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only();

CREATE TABLE ledger_origins (
    ordinal    integer     NOT NULL PRIMARY KEY CHECK (ordinal > 0),
    origin     text        NOT NULL UNIQUE CHECK (origin <> ''),
    signer     uuid        NOT NULL,
    tree_size  bigint      NOT NULL CHECK (tree_size >= 0),
    started_at timestamptz NOT NULL
);

COMMENT ON TABLE ledger_origins IS 'Names under which the ledger has been signed; the highest ordinal is the current one. A new one is started, and recorded here, for instance after a restore that lost signed events.';
COMMENT ON COLUMN ledger_origins.ordinal IS '1, 2, 3, …';
COMMENT ON COLUMN ledger_origins.origin IS 'Origin line of the checkpoints.';
COMMENT ON COLUMN ledger_origins.signer IS 'Id of the signer directory, in its file id. Without it the origin cannot be signed any more.';
COMMENT ON COLUMN ledger_origins.tree_size IS 'Entries in the tree when the origin was started.';
COMMENT ON COLUMN ledger_origins.started_at IS 'When the origin was started.';

CREATE TABLE ledger_keys (
    origin        text        NOT NULL REFERENCES ledger_origins (origin),
    verifier_key  text        NOT NULL CHECK (verifier_key <> ''),
    first_used_at timestamptz NOT NULL,
    CONSTRAINT ledger_keys_pkey PRIMARY KEY (origin, verifier_key)
);

COMMENT ON TABLE ledger_keys IS 'Public keys that ever signed checkpoints. The private keys are only in files.';
COMMENT ON COLUMN ledger_keys.origin IS 'Origin that the key signs for.';
COMMENT ON COLUMN ledger_keys.verifier_key IS 'Public key in the form of C2SP signed-note: name+hash+base64.';
COMMENT ON COLUMN ledger_keys.first_used_at IS 'When a replica first used the key.';

CREATE TABLE ledger_checkpoints (
    origin        text        NOT NULL REFERENCES ledger_origins (origin),
    tree_size     bigint      NOT NULL CHECK (tree_size >= 0),
    previous_size bigint,
    root_hash     bytea       NOT NULL CHECK (length(root_hash) = 32),
    note          text        NOT NULL,
    signed_at     timestamptz NOT NULL,
    CONSTRAINT ledger_checkpoints_pkey PRIMARY KEY (origin, tree_size),
    -- Each checkpoint follows a smaller one, and no two follow the same one: the sizes of an origin form one growing chain.
    CONSTRAINT ledger_checkpoints_chain UNIQUE NULLS NOT DISTINCT (origin, previous_size),
    CONSTRAINT ledger_checkpoints_previous FOREIGN KEY (origin, previous_size) REFERENCES ledger_checkpoints (origin, tree_size),
    CONSTRAINT ledger_checkpoints_grow CHECK (previous_size < tree_size)
);

COMMENT ON TABLE ledger_checkpoints IS 'All signed checkpoints, in one chain per origin.';
COMMENT ON COLUMN ledger_checkpoints.origin IS 'Origin line.';
COMMENT ON COLUMN ledger_checkpoints.tree_size IS 'Number of entries that the checkpoint covers.';
COMMENT ON COLUMN ledger_checkpoints.previous_size IS 'Size of the previous checkpoint; NULL for the first of an origin.';
COMMENT ON COLUMN ledger_checkpoints.root_hash IS 'Merkle tree hash of those entries.';
COMMENT ON COLUMN ledger_checkpoints.note IS 'The signed note (C2SP tlog-checkpoint).';
COMMENT ON COLUMN ledger_checkpoints.signed_at IS 'When it was stored, by the clock of the database.';

-- Cosignatures come about once a second. Old ones are deleted, because nothing reads them once newer ones are there.
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

COMMENT ON TABLE ledger_cosignatures IS 'Cosignatures of witnesses on checkpoints, which are served with them: those on the newest checkpoints, and the newest one of each witness.';
COMMENT ON COLUMN ledger_cosignatures.origin IS 'Origin line of the checkpoint.';
COMMENT ON COLUMN ledger_cosignatures.tree_size IS 'Number of entries that the checkpoint covers.';
COMMENT ON COLUMN ledger_cosignatures.witness IS 'Public key of the witness (C2SP signed-note).';
COMMENT ON COLUMN ledger_cosignatures.signature IS 'Signature line of the note, with its line feed, verified with that key.';
COMMENT ON COLUMN ledger_cosignatures.quorum IS 'Quorum of the replica that requested this cosignature. A checkpoint with as many cosignatures has reached the quorum.';
COMMENT ON COLUMN ledger_cosignatures.cosigned_at IS 'When it was stored, by the clock of the database.';

-- The 16 checkpoints are those from which the served one is chosen.
CREATE FUNCTION ledger_cosignature_is_needed(p_origin text, p_tree_size bigint, p_witness text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT p_tree_size >= (
            SELECT min(c.tree_size) FROM (
                SELECT tree_size FROM public.ledger_checkpoints WHERE origin = p_origin ORDER BY tree_size DESC LIMIT 16) AS c)
        OR NOT EXISTS (
            SELECT FROM public.ledger_cosignatures AS newer
            WHERE newer.origin = p_origin AND newer.witness = p_witness AND newer.tree_size > p_tree_size)
$$;
COMMENT ON FUNCTION ledger_cosignature_is_needed IS 'Whether a cosignature stays: on one of the 16 newest checkpoints of its origin, or the newest one of its witness there.';

-- +goose StatementBegin
CREATE FUNCTION ledger_cosignature_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF public.ledger_cosignature_is_needed(OLD.origin, OLD.tree_size, OLD.witness) THEN
        RAISE EXCEPTION 'DELETE on % is refused: the cosignature is still needed', TG_TABLE_NAME
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN OLD;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION ledger_cosignature_stays IS 'Refuses to delete a cosignature that is still needed.';

CREATE TRIGGER ledger_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_tiles FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only();
CREATE TRIGGER ledger_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_origins FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only();
CREATE TRIGGER ledger_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_keys FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only();
CREATE TRIGGER ledger_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_checkpoints FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only();
CREATE TRIGGER ledger_append_only BEFORE UPDATE OR TRUNCATE ON ledger_cosignatures FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only();
CREATE TRIGGER ledger_cosignature_stays BEFORE DELETE ON ledger_cosignatures FOR EACH ROW EXECUTE FUNCTION ledger_cosignature_stays();
-- ALWAYS: also with session_replication_role = replica.
ALTER TABLE ledger_tiles ENABLE ALWAYS TRIGGER ledger_append_only;
ALTER TABLE ledger_origins ENABLE ALWAYS TRIGGER ledger_append_only;
ALTER TABLE ledger_keys ENABLE ALWAYS TRIGGER ledger_append_only;
ALTER TABLE ledger_checkpoints ENABLE ALWAYS TRIGGER ledger_append_only;
ALTER TABLE ledger_cosignatures ENABLE ALWAYS TRIGGER ledger_append_only, ENABLE ALWAYS TRIGGER ledger_cosignature_stays;
ALTER TABLE ledger_state ENABLE ALWAYS TRIGGER ledger_state_only_grows, ENABLE ALWAYS TRIGGER ledger_state_stays;

-- +goose Down
DROP TABLE ledger_cosignatures, ledger_checkpoints, ledger_keys, ledger_origins, ledger_state, ledger_tiles;
DROP FUNCTION ledger_cosignature_stays, ledger_cosignature_is_needed, ledger_state_only_grows, ledger_is_append_only;
