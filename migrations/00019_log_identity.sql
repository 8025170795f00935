-- The identity of the log: a random id that distinguishes it from every other log. A dump, a standby and a restored backup keep it.

-- +goose Up
CREATE TABLE log_identity (
    the_only boolean NOT NULL PRIMARY KEY DEFAULT true CHECK (the_only),
    id       uuid    NOT NULL DEFAULT gen_random_uuid()
);

COMMENT ON TABLE log_identity IS 'Identity of the event log, one row that never changes.';
COMMENT ON COLUMN log_identity.id IS 'Random id of the log. Dumps, standbys and restored backups keep it.';

INSERT INTO log_identity DEFAULT VALUES;

-- +goose StatementBegin
CREATE FUNCTION log_identity_is_fixed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% on % is refused: a log keeps its identity', TG_OP, TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION log_identity_is_fixed IS 'Refuses every change of the identity of the log.';

CREATE TRIGGER log_identity_is_fixed BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON log_identity
    FOR EACH STATEMENT EXECUTE FUNCTION log_identity_is_fixed();
ALTER TABLE log_identity ENABLE ALWAYS TRIGGER log_identity_is_fixed;

-- +goose Down
DROP TABLE log_identity;
DROP FUNCTION log_identity_is_fixed;
