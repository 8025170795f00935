-- Permits taken in the last minute, per integration and operation: the sliding windows that all replicas share.

-- +goose Up
CREATE TABLE rate_limits (
    integration_id uuid          NOT NULL,
    operation      text          NOT NULL CHECK (operation <> ''),
    taken_at       timestamptz   NOT NULL,
    charged_at     timestamptz[] NOT NULL,
    charged        integer[]     NOT NULL,
    CONSTRAINT rate_limits_pkey PRIMARY KEY (integration_id, operation),
    CONSTRAINT rate_limits_same_length CHECK (cardinality(charged_at) = cardinality(charged))
);
-- A busy row is updated several times a second: leave room for new versions in its page. With about 120 entries, 1.5 kB, it never
-- needs a TOAST table.
ALTER TABLE rate_limits SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

COMMENT ON TABLE rate_limits IS 'Permits taken in the last minute, one row per integration and operation. Only rate_limit_take writes it; not part of the history.';
COMMENT ON COLUMN rate_limits.operation IS 'Limited operation: posts, novels.';
COMMENT ON COLUMN rate_limits.taken_at IS 'Time of the newest take. The next take never uses an earlier time.';
COMMENT ON COLUMN rate_limits.charged_at IS 'Times when permits were granted, ascending. A lease counts from its end.';
COMMENT ON COLUMN rate_limits.charged IS 'Number of permits of each entry of charged_at.';

-- rate_limit_take takes up to p_wanted permits of one window, after it returns unused ones.
--
-- A permit counts for 60 seconds after its entry in charged_at, both ends included. Up to 120 entries are kept unchanged; beyond that,
-- entries of the same half second are merged into the newest of them. So in a busy window a permit may count up to half a second
-- longer, never shorter; a window with a limit of up to 120 is exact to the microsecond.
--
-- If all wanted permits were granted and p_lease_share > 0, the caller also gets a lease: 1/p_lease_share of the remaining permits.
-- The caller may use it until p_lease has passed on its own clock since before this call; the lease is charged at its end.
-- (p_returned_at, p_returned) are the charges of unused permits, and the number of permits of each. p_clock replaces the clock of the
-- database in tests.
-- +goose StatementBegin
CREATE FUNCTION rate_limit_take(
    p_integration_id uuid,
    p_operation      text,
    p_limit          bigint,
    p_wanted         bigint,
    p_lease_share    bigint,
    p_lease          interval,
    p_returned_at    timestamptz[],
    p_returned       bigint[],
    p_clock          timestamptz DEFAULT NULL,
    OUT granted      bigint,       -- 0 … p_wanted
    OUT leased       bigint,       -- 0 unless all wanted permits were granted
    OUT used         bigint,       -- permits that count now, including these and the lease
    OUT granted_at   timestamptz,  -- charge of the granted permits
    OUT leased_until timestamptz,  -- charge of the leased permits
    OUT retry_after  interval,     -- until one more permit is free; 0 if one is free
    OUT reset_after  interval      -- until no permit counts
) LANGUAGE plpgsql AS $$
DECLARE
    span    CONSTANT interval := interval '60 seconds';
    plenty  CONSTANT integer := 120; -- entries; more are merged into one per …
    slot    CONSTANT interval := interval '500 milliseconds';
    origin  CONSTANT timestamptz := timestamptz '2000-01-01 00:00:00Z';
    tick    CONSTANT interval := interval '1 microsecond'; -- the clock cuts off what is below
    clock   timestamptz;
    taken   timestamptz;
    times   timestamptz[];
    counts  integer[];
    changed boolean := cardinality(p_returned_at) > 0;
    gone    integer; -- number of first entries that no longer count
    i       integer;
BEGIN
    SELECT r.taken_at, r.charged_at, r.charged INTO taken, times, counts
    FROM rate_limits r WHERE r.integration_id = p_integration_id AND r.operation = p_operation FOR UPDATE;
    IF NOT FOUND THEN
        INSERT INTO rate_limits (integration_id, operation, taken_at, charged_at, charged)
        VALUES (p_integration_id, p_operation, coalesce(p_clock, clock_timestamp()), '{}', '{}')
        ON CONFLICT (integration_id, operation) DO NOTHING;
        SELECT r.taken_at, r.charged_at, r.charged INTO STRICT taken, times, counts
        FROM rate_limits r WHERE r.integration_id = p_integration_id AND r.operation = p_operation FOR UPDATE;
    END IF;

    -- After the lock: an earlier reading could be older than that of a take that got the lock first.
    clock := coalesce(p_clock, clock_timestamp());
    IF taken > clock + span THEN
        -- If the clock was set back by minutes, move the entries along, so that the window does not stop for minutes.
        times := ARRAY(SELECT e.at - (taken - clock) FROM unnest(times) WITH ORDINALITY AS e (at, i) ORDER BY e.i);
        taken := clock;
        changed := true;
    END IF;
    granted_at := greatest(clock, taken);
    leased_until := granted_at + p_lease;

    -- A returned permit is removed from the first entry at or after its charge: its own, or an earlier one than the one that it was merged
    -- into. If the charge is over a minute old, its entry may be gone: nothing is returned.
    FOR r IN 1 .. cardinality(p_returned_at) LOOP
        CONTINUE WHEN p_returned_at[r] < granted_at - span;
        SELECT min(e.i) INTO i FROM unnest(times) WITH ORDINALITY AS e (at, i) WHERE e.at >= p_returned_at[r];
        CONTINUE WHEN i IS NULL;
        counts[i] := greatest(0, counts[i] - p_returned[r]);
    END LOOP;

    SELECT count(*) FILTER (WHERE e.at < granted_at - span), coalesce(sum(e.n) FILTER (WHERE e.at >= granted_at - span), 0)
    INTO gone, used
    FROM unnest(times, counts) AS e (at, n);

    granted := greatest(0, least(p_wanted, p_limit - used));
    leased := 0;
    IF p_lease_share > 0 AND granted = p_wanted THEN
        leased := greatest(0, (p_limit - used - granted) / p_lease_share);
    END IF;
    used := used + granted + leased;

    -- A refusal need not be stored: the next take computes the same entries.
    IF changed OR granted + leased > 0 THEN
        SELECT coalesce(array_agg(s.at ORDER BY s.at), '{}'), coalesce(array_agg(s.n ORDER BY s.at), '{}')
        INTO times, counts
        FROM (
            SELECT max(e.at) AS at, sum(e.n)::integer AS n
            FROM unnest(times[gone + 1:] || granted_at || leased_until, counts[gone + 1:] || granted::integer || leased::integer) AS e (at, n)
            WHERE e.n > 0
            GROUP BY CASE WHEN cardinality(times) - gone < plenty THEN e.at ELSE date_bin(slot, e.at, origin) END
        ) AS s;
        UPDATE rate_limits r SET taken_at = granted_at, charged_at = times, charged = counts
        WHERE r.integration_id = p_integration_id AND r.operation = p_operation;
    END IF;

    -- From clock, not granted_at: after the clock was set back, the wait is longer.
    reset_after := greatest(interval '0', times[cardinality(times)] + span + tick - clock);
    retry_after := interval '0';
    IF used >= p_limit THEN
        SELECT coalesce(min(f.at) + span + tick - clock, span) INTO retry_after
        FROM (
            SELECT e.at, sum(e.n) OVER (ORDER BY e.at) AS freed
            FROM unnest(times, counts) AS e (at, n) WHERE e.at >= granted_at - span
        ) AS f
        WHERE f.freed > used - p_limit;
    END IF;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION rate_limit_take IS 'Takes permits of one sliding window of 60 seconds, exactly: the row lock orders the takes of all replicas.';

-- +goose Down
DROP FUNCTION rate_limit_take;
DROP TABLE rate_limits;
