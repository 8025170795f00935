package projections_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"novelgate/internal/testdb"
	"novelgate/projections"
)

// TestLag: operators see the lag, and analysts do without further rights.
func TestLag(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	stop := run(t, projections.Config{Pool: pool, Projections: []projections.Projection{projections.Novels{}}})
	append1(t, pool, comments(seeded(1), "one", 5)...)
	testdb.Eventually(t, "caught up", caughtUp(t, pool, "novels"))
	stop()
	type freshness struct {
		Projection, State   string
		Generation          int
		Position, LagEvents int64
		LagSeconds          float64
		AsOf                time.Time
	}
	wantLag := func(what string, want freshness) {
		t.Helper()
		tx := testdb.Begin(t, pool)
		defer func() { _ = tx.Rollback(context.Background()) }()
		testdb.Exec(t, tx, `SET LOCAL ROLE novelgate_analytics`)
		var got freshness
		var now time.Time
		err := tx.QueryRow(t.Context(),
			`SELECT projection, state, position, generation, lag_events, lag_seconds, as_of, statement_timestamp() FROM analytics.freshness`).
			Scan(&got.Projection, &got.State, &got.Position, &got.Generation, &got.LagEvents, &got.LagSeconds, &got.AsOf, &now)
		if err != nil {
			t.Fatal(err)
		}
		if want.LagEvents > 0 {
			want.LagSeconds = float64(now.Sub(want.AsOf).Microseconds()) / 1e6 // Seconds rounds twice
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s, for analysts (-want +got):\n%s", what, diff)
		}
		if s := status(t, pool, "novels"); int64(s.Position) != want.Position || s.LagEvents != want.LagEvents ||
			s.State != want.State || s.Generation != want.Generation || s.LagSeconds < want.LagSeconds ||
			s.LagSeconds > time.Since(want.AsOf).Seconds() || want.LagEvents == 0 && s.LagSeconds > 0 {
			t.Errorf("%s, for operators: %+v", what, s)
		}
	}
	want := freshness{Projection: "novels", State: projections.Running, Position: 5, Generation: 1}
	want.AsOf = readAll(t, pool)[4].RecordedAt
	wantLag("caught up", want)
	append1(t, pool, comments(seeded(2), "two", 3)...)
	append1(t, pool, comments(seeded(3), "three", 3)...)
	want.LagEvents, want.AsOf = 6, readAll(t, pool)[5].RecordedAt
	wantLag("behind", want)
}

func TestCollector(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	testdb.Exec(t, pool, `INSERT INTO projections (name, generation, position, state, error, failed_log_index, updated_at) VALUES
		('bad', 1, 0, 'failed', 'why', 0, now()), ('good', 1, 0, 'running', NULL, NULL, now())`)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	collector := projections.NewCollector(pool, func() time.Time { return now })
	want := map[string]float64{
		"novelgate_projections_up":          1,
		"novelgate_projection_failed bad":   1,
		"novelgate_projection_failed good":  0,
		"novelgate_projection_retrying bad": 0, "novelgate_projection_retrying good": 0,
		"novelgate_projection_generation bad": 1, "novelgate_projection_generation good": 1,
		"novelgate_projection_lag_events bad": 0, "novelgate_projection_lag_events good": 0,
		"novelgate_projection_lag_seconds bad": 0, "novelgate_projection_lag_seconds good": 0,
	}
	got := gatherInTime(t, collector, func() { now = now.Add(time.Second) })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics differ (-want +got):\n%s", diff)
	}
	// Within a second the answer is the same.
	append1(t, pool, comments(seeded(1), "one", 3)...)
	assertMetrics(t, collector, want)
	testdb.Eventually(t, "the database answers in time", func() bool {
		now = now.Add(time.Second)
		return testdb.Metrics(t, collector)["novelgate_projection_lag_events good"] == 3
	})
}

func assertMetrics(t *testing.T, collector prometheus.Collector, want map[string]float64) {
	t.Helper()
	if diff := cmp.Diff(want, testdb.Metrics(t, collector)); diff != "" {
		t.Errorf("metrics differ (-want +got):\n%s", diff)
	}
}

// gatherInTime returns the values once the database has answered within the time limit of the collector, which a busy
// machine may miss. again is called before each further attempt.
func gatherInTime(t *testing.T, collector prometheus.Collector, again func()) (values map[string]float64) {
	t.Helper()
	testdb.Eventually(t, "the database answers in time", func() bool {
		if values != nil {
			again()
		}
		values = testdb.Metrics(t, collector)
		return values["novelgate_projections_up"] == 1
	})
	return values
}

func TestCollectorWithoutDatabase(t *testing.T) {
	t.Parallel()
	away := testdb.Must(pgxpool.New(t.Context(), "postgres://127.0.0.1:1/none"))(t)
	defer away.Close()
	assertMetrics(t, projections.NewCollector(away, time.Now), map[string]float64{"novelgate_projections_up": 0})
}
