-- Old cosignatures of witnesses are deleted: about once a second one came, and nothing reads it once newer ones are there. See
-- docs/ledger.md, "Witnesses".

-- +goose Up
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

DROP TRIGGER ledger_append_only ON ledger_cosignatures;
CREATE TRIGGER ledger_append_only BEFORE UPDATE OR TRUNCATE ON ledger_cosignatures FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only();
CREATE TRIGGER ledger_cosignature_stays BEFORE DELETE ON ledger_cosignatures FOR EACH ROW EXECUTE FUNCTION ledger_cosignature_stays();
ALTER TABLE ledger_cosignatures ENABLE ALWAYS TRIGGER ledger_append_only;
ALTER TABLE ledger_cosignatures ENABLE ALWAYS TRIGGER ledger_cosignature_stays;

COMMENT ON TABLE ledger_cosignatures IS 'Cosignatures of witnesses on checkpoints, which are served with them: those on the newest checkpoints, and the newest one of each witness.';

-- +goose Down
DROP TRIGGER ledger_cosignature_stays ON ledger_cosignatures;
DROP TRIGGER ledger_append_only ON ledger_cosignatures;
CREATE TRIGGER ledger_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_cosignatures FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_append_only();
ALTER TABLE ledger_cosignatures ENABLE ALWAYS TRIGGER ledger_append_only;
COMMENT ON TABLE ledger_cosignatures IS 'Cosignatures of witnesses on checkpoints, which are served with them.';
DROP FUNCTION ledger_cosignature_stays();
DROP FUNCTION ledger_cosignature_is_needed(text, bigint, text);
