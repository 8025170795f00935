package projections_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

const poisonKey = "poison"

// allergic is a counting projection that cannot apply one event until it is cured.
type allergic struct {
	counting
	reaction func(ctx context.Context, tx database.Execer) error
	cured    *atomic.Bool
}

func (a allergic) Apply(ctx context.Context, tx database.Execer, batch []events.Recorded) error {
	for i := range batch {
		if batch[i].ID == poisonKey && !a.cured.Load() {
			if err := a.reaction(ctx, tx); err != nil {
				return err
			}
		}
	}
	return a.counting.Apply(ctx, tx, batch)
}

func TestPoisonStopsOneProjectionAlone(t *testing.T) {
	t.Parallel()
	exec := func(sql string, args ...any) func(context.Context, database.Execer) error {
		return func(ctx context.Context, tx database.Execer) error {
			_, err := tx.Exec(ctx, sql, args...)
			return err
		}
	}
	for name, test := range map[string]struct {
		reaction func(context.Context, database.Execer) error
		want     string
	}{
		"error": {
			func(context.Context, database.Execer) error { return errors.New("indigestible\x00") }, "indigestible",
		},
		"panic":             {func(context.Context, database.Execer) error { panic("allergic shock") }, "allergic shock"},
		"refused statement": {exec(`SELECT 1 / 0`), "division by zero"},
		"unique violation": {
			exec(`INSERT INTO settings (name, value) VALUES ('twice', ''), ('twice', '')`), "duplicate key",
		},
		"deferred check":     {exec(`INSERT INTO deferred VALUES (1), (1)`), "duplicate key"},
		"unencodable value":  {exec(`SELECT $1::integer`, make(chan int)), "chan int"},
		"a missing table":    {exec(`SELECT FROM no_such_table`), "no_such_table"}, // until Patience ends
		"NUL in a parameter": {exec(`SELECT $1::text`, "\x00"), "invalid byte sequence"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t)
			testdb.Exec(t, pool, `CREATE TABLE deferred (n integer UNIQUE DEFERRABLE INITIALLY DEFERRED)`)
			sick := allergic{newCounting(t, pool, "sick"), test.reaction, new(atomic.Bool)}
			healthy := newCounting(t, pool, "healthy")
			config := projections.Config{
				Pool: pool, Projections: []projections.Projection{sick, healthy}, Wake: eventlog.NewWake(), Patience: 4,
				Logger: quiet(),
			}

			random := seeded(1)
			before, after := comments(random, "before", 37), comments(random, "after", 20)
			append1(t, pool, append(append(before, comment(random, poisonKey)), after...)...)
			stop := run(t, config)
			awaitFailed(t, pool, "sick")
			assertFailed(t, pool, sick.counting, 37, test.want)
			append1(t, pool, comments(random, "later", 5)...)
			config.Wake.Signal()
			testdb.Eventually(t, "the other projection goes on", func() bool { return len(healthy.applied(t, pool)) == 63 })

			// A restart changes nothing.
			stop()
			stop = run(t, config)
			append1(t, pool, comments(random, "even later", 5)...)
			config.Wake.Signal()
			testdb.Eventually(t, "the other projection goes on", func() bool { return len(healthy.applied(t, pool)) == 68 })
			assertFailed(t, pool, sick.counting, 37, test.want)

			// Retrying without a cure fails at the same event.
			testdb.NoError(t, projections.Retry(t.Context(), pool, "sick"))
			awaitFailed(t, pool, "sick")
			assertFailed(t, pool, sick.counting, 37, test.want)

			sick.cured.Store(true)
			testdb.NoError(t, projections.Retry(t.Context(), pool, "sick"))
			testdb.Eventually(t, "caught up", caughtUp(t, pool, "sick"))
			if err := projections.Retry(t.Context(), pool, "sick"); !errors.Is(err, projections.ErrNotFailed) {
				t.Errorf("retry of what has not failed: %v", err)
			}
			stop()
			sick.assertAll(t, pool)
			healthy.assertAll(t, pool)
		})
	}
}

// TestTransientErrorsDoNotStop: temporary errors are retried and do not stop the projection.
func TestTransientErrorsDoNotStop(t *testing.T) {
	t.Parallel()
	for _, state := range []string{
		"deadlock_detected", "serialization_failure", "lock_not_available", "query_canceled", "disk_full",
		"read_only_sql_transaction", "io_error",
		// These do not show whether they are temporary, or whether an event is to blame.
		"idle_in_transaction_session_timeout", "insufficient_privilege", "internal_error", "index_corrupted",
		"undefined_table", "feature_not_supported",
	} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t)
			var attempts atomic.Int32
			reaction := func(ctx context.Context, tx database.Execer) error {
				attempts.Add(1)
				_, err := tx.Exec(ctx, fmt.Sprintf(`DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '%s'; END $$`, state))
				return err
			}
			p := allergic{newCounting(t, pool, "sick"), reaction, new(atomic.Bool)}
			random := seeded(1)
			append1(t, pool, append(comments(random, "before", 5), comment(random, poisonKey))...)
			run(t, projections.Config{Pool: pool, Projections: []projections.Projection{p}, Logger: quiet()})
			testdb.Eventually(t, "tried again", func() bool { return attempts.Load() > 3 })
			if s := status(t, pool, "sick"); s.State != projections.Running {
				t.Errorf("state %s: %v", s.State, s.Error)
			}
			p.cured.Store(true)
			testdb.Eventually(t, "caught up", caughtUp(t, pool, "sick"))
			p.assertAll(t, pool)
		})
	}
}

// TestTroubleIsOnRecord: an error that may be caused by an event is recorded while it is retried, until it disappears.
func TestTroubleIsOnRecord(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	p, random := newCounting(t, pool, "sick"), seeded(1)
	execute(t, pool,
		`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no right' USING ERRCODE = 'insufficient_privilege'; END $$`,
		`CREATE TRIGGER refuse BEFORE INSERT ON applied_sick EXECUTE FUNCTION refuse()`)
	append1(t, pool, comments(random, "some", 5)...)
	run(t, projections.Config{Pool: pool, Projections: []projections.Projection{p}, Logger: quiet()})
	testdb.Eventually(t, "on record", func() bool { return status(t, pool, "sick").Error != nil })
	if s := status(t, pool, "sick"); s.State != projections.Running || !strings.Contains(*s.Error, "no right") ||
		s.FailedAt != nil {
		t.Errorf("status of a projection in trouble: %+v", s)
	}
	metrics := map[string]float64{}
	for name, value := range gatherInTime(t, projections.NewCollector(pool, time.Now), func() {}) {
		if strings.Contains(name, "retrying") || strings.Contains(name, "failed") {
			metrics[name] = value
		}
	}
	want := map[string]float64{
		"novelgate_projection_retrying sick": 1, "novelgate_projection_failed sick": 0,
	}
	if diff := cmp.Diff(want, metrics); diff != "" {
		t.Errorf("metrics differ (-want +got):\n%s", diff)
	}
	execute(t, pool, `DROP TRIGGER refuse ON applied_sick`)
	testdb.Eventually(t, "caught up", caughtUp(t, pool, "sick"))
	p.assertAll(t, pool)
	if s := status(t, pool, "sick"); s.Error != nil {
		t.Errorf("still on record: %s", *s.Error)
	}
}

func execute(t *testing.T, pool *pgxpool.Pool, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		testdb.Exec(t, pool, sql)
	}
}

// assertFailed checks that a projection stopped at an event and has applied those before it.
func assertFailed(t *testing.T, pool *pgxpool.Pool, p counting, at int64, want string) {
	t.Helper()
	s := status(t, pool, p.name)
	if s.State != projections.Failed || s.Error == nil || s.FailedAt == nil {
		t.Fatalf("status of a failed projection: %+v", s)
	}
	if n := len(p.applied(t, pool)); *s.FailedAt != at || int64(n) != at {
		t.Errorf("failed at %d behind %d events, want %d", *s.FailedAt, n, at)
	}
	if !strings.Contains(*s.Error, want) {
		t.Errorf("error %q does not mention %q", *s.Error, want)
	}
}

// insertRaw inserts an event with any type and data.
func insertRaw(t *testing.T, pool *pgxpool.Pool, eventType, data string) {
	t.Helper()
	testdb.Exec(t, pool, `INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, integration_id, event_source, event_type, data, batch_id)
		VALUES ((SELECT coalesce(max(log_index) + 1, 0) FROM events), 'post', $3, 1, $1, $4, 'test', $1, $2::text::json, gen_random_uuid())`, eventType, data,
		events.PostID(integrationID, eventType), integrationID)
}

// TestUnknownTypeWaitsForNewerReplica: this replica applies the events before an event of unknown type and waits,
// without failing, until a newer replica has moved the checkpoint.
func TestUnknownTypeWaitsForNewerReplica(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	p := newCounting(t, pool, "old")
	random := seeded(1)
	append1(t, pool, comments(random, "before", 7)...)
	insertRaw(t, pool, "post.imported.v9", `{}`)
	append1(t, pool, comments(random, "after", 3)...)
	run(t, projections.Config{Pool: pool, Projections: []projections.Projection{p}, Logger: quiet()})

	testdb.Eventually(t, "waits", func() bool { return status(t, pool, "old").UnknownType != nil })
	s := status(t, pool, "old")
	if s.State != projections.Running || *s.UnknownType != "post.imported.v9" || s.Error != nil || s.LagEvents < 1 ||
		s.LagSeconds <= 0 {
		t.Errorf("status of a waiting projection: %+v", s)
	}
	// As a newer replica does.
	testdb.Exec(t, pool, `UPDATE projections AS p SET position = e.log_index + 1, unknown_type = NULL
		FROM events AS e WHERE e.event_source = 'test'`)
	testdb.Eventually(t, "caught up", caughtUp(t, pool, "old"))
	p.wantApplied(t, pool, 10)
	if s := status(t, pool, "old"); s.UnknownType != nil {
		t.Errorf("still waits for %s", *s.UnknownType)
	}
}

func TestNewRunnerRefusesTwoOfOneName(t *testing.T) {
	t.Parallel()
	_, err := projections.NewRunner(projections.Config{
		Pool: newPool(t), Projections: []projections.Projection{projections.Posts{}, projections.Posts{}},
	})
	if err == nil || !strings.Contains(fmt.Sprint(err), "posts") {
		t.Errorf("got %v", err)
	}
}

// TestPoisonInABacklog: an event in a large backlog that cannot be applied or decoded is found exactly, although chunks
// are large.
func TestPoisonInABacklog(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	sick := allergic{
		newCounting(t, pool, "sick"), func(context.Context, database.Execer) error { return errors.New("indigestible") },
		new(atomic.Bool),
	}
	blind := newCounting(t, pool, "blind")
	random := seeded(1)
	log := comments(random, "key", 12_000)
	log[7_777] = comment(random, poisonKey)
	append1(t, pool, log...)
	insertRaw(t, pool, "post.imported.v1", `["not what it was"]`)
	append1(t, pool, comments(random, "after", 10)...)
	run(t, projections.Config{Pool: pool, Projections: []projections.Projection{sick, blind}, Limit: 500, Logger: quiet()})
	testdb.Eventually(t, "both have failed", func() bool {
		return status(t, pool, "sick").State == projections.Failed && status(t, pool, "blind").State == projections.Failed
	})
	assertFailed(t, pool, sick.counting, 7_777, "indigestible")
	assertFailed(t, pool, blind, 12_000, "decode post.imported.v1")
}

// TestWaitingProjectionStopsNoOther: projections that wait in a large chunk, as for a lock, take all slots,
// and another projection applies the log meanwhile.
func TestWaitingProjectionStopsNoOther(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	config := pool.Config()
	slots := max(1, runtime.NumCPU()/2)
	config.MaxConns = int32(slots + 4)
	wide := testdb.Must(pgxpool.NewWithConfig(t.Context(), config))(t)
	t.Cleanup(wide.Close)
	released := make(chan struct{})
	wait := func(context.Context, database.Execer) error { <-released; return nil }
	other := newCounting(t, pool, "other")
	all := []projections.Projection{other}
	for i := range slots {
		all = append(all, allergic{newCounting(t, pool, fmt.Sprint("waiting", i)), wait, new(atomic.Bool)})
	}
	large := comments(seeded(7), "large", 200)
	large[100] = comment(seeded(8), poisonKey)
	append1(t, pool, large...)
	stop := run(t, projections.Config{Pool: wide, Projections: all})
	testdb.Eventually(t, "the other projection has applied the log", func() bool {
		return len(other.applied(t, pool)) == len(large)
	})
	for _, waiting := range all[1:] {
		if n := count(t, pool, "applied_"+waiting.Name()); n > 0 {
			t.Errorf("%s has applied %d events without waiting", waiting.Name(), n)
		}
	}
	close(released)
	testdb.Eventually(t, "all have applied the log", func() bool {
		return !slices.ContainsFunc(all, func(p projections.Projection) bool {
			return count(t, pool, "applied_"+p.Name()) != len(large)
		})
	})
	stop()
}
