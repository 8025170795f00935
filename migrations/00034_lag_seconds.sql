-- The seconds of a lag include events that have not settled. A long transaction anywhere in the cluster keeps all later events from
-- settling, so nothing goes on, and no alert showed it.

-- +goose Up
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION projection_lag(
    p_transaction_id xid8,
    p_position       integer,
    p_most           integer,
    OUT events       bigint,
    OUT seconds      double precision
) LANGUAGE sql STABLE SET jit = off AS $$
    SELECT
        (SELECT count(*) FROM (
            SELECT FROM events AS e
            WHERE (e.transaction_id, e.position) > (p_transaction_id, p_position)
              AND e.transaction_id < pg_snapshot_xmin(pg_current_snapshot())
            ORDER BY e.transaction_id, e.position LIMIT p_most) AS behind),
        coalesce((
            SELECT greatest(extract(epoch FROM statement_timestamp() - e.recorded_at), 0) FROM events AS e
            WHERE (e.transaction_id, e.position) > (p_transaction_id, p_position)
            ORDER BY e.transaction_id, e.position LIMIT 1), 0)
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION projection_lag IS 'Settled events after a position in the log, counted up to p_most, and the age of the oldest event after it, settled or not; 0 when there is none.';

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION projection_lag(
    p_transaction_id xid8,
    p_position       integer,
    p_most           integer,
    OUT events       bigint,
    OUT seconds      double precision
) LANGUAGE sql STABLE SET jit = off AS $$
    SELECT
        (SELECT count(*) FROM (
            SELECT FROM events AS e
            WHERE (e.transaction_id, e.position) > (p_transaction_id, p_position)
              AND e.transaction_id < pg_snapshot_xmin(pg_current_snapshot())
            ORDER BY e.transaction_id, e.position LIMIT p_most) AS behind),
        coalesce((
            SELECT greatest(extract(epoch FROM statement_timestamp() - e.recorded_at), 0) FROM events AS e
            WHERE (e.transaction_id, e.position) > (p_transaction_id, p_position)
              AND e.transaction_id < pg_snapshot_xmin(pg_current_snapshot())
            ORDER BY e.transaction_id, e.position LIMIT 1), 0)
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION projection_lag IS 'Settled events after a position in the log, counted up to p_most, and the age of the oldest one; 0 when there are none.';
