package projections_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"novelgate/internal/database"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

func TestListCountsTheLag(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	stop := run(t, projections.Config{Pool: pool, Projections: []projections.Projection{projections.Posts{}}})
	random := seeded(1)
	append1(t, pool, comments(random, "one", 5)...)
	testdb.Eventually(t, "caught up", func() bool { return count(t, pool, "posts") == 5 })
	if s := status(t, pool, "posts"); s.LagSeconds != 0 || s.State != projections.Running ||
		s.Generation != (projections.Posts{}).Generation() || s.TransactionID == 0 || s.Position != 4 {
		t.Errorf("status when caught up: %+v", s)
	}
	stop()
	begun := time.Now()
	append1(t, pool, comments(random, "two", 5)...)
	append1(t, pool, comments(random, "three", 5)...)
	time.Sleep(10 * time.Millisecond)
	testdb.Eventually(t, "settled", func() bool { return status(t, pool, "posts").LagEvents > 9 })
	if s := status(t, pool, "posts"); s.LagEvents != 10 || s.LagCapped || s.LagSeconds < 0.01 ||
		s.LagSeconds > time.Since(begun).Seconds() {
		t.Errorf("status when behind: %+v", s)
	}
}

// TestLagOfUnsettledEvents: a transaction that goes on keeps later events from settling. The lag in seconds shows it.
func TestLagOfUnsettledEvents(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	run(t, projections.Config{Pool: pool, Projections: []projections.Projection{projections.Posts{}}})
	testdb.Eventually(t, "the projection runs", func() bool { return count(t, pool, "projections") == 1 })
	older := testdb.Begin(t, pool)
	testdb.Exec(t, older, `SELECT pg_current_xact_id()`)
	append1(t, pool, comments(seeded(1), "one", 3)...)
	if s := status(t, pool, "posts"); s.LagEvents != 0 || s.LagSeconds <= 0 {
		t.Errorf("beside an older transaction: %+v", s)
	}
	if err := older.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	testdb.Eventually(t, "it has caught up", func() bool {
		return count(t, pool, "posts") == 3 && status(t, pool, "posts").LagSeconds == 0
	})
}

func TestCollector(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	testdb.Exec(t, pool, `INSERT INTO projections (name, generation, transaction_id, position, state, error, failed_transaction_id, failed_position, updated_at) VALUES
		('bad', 1, '0', 0, 'failed', 'why', '9', 0, now()), ('good', 1, '0', 0, 'running', NULL, NULL, NULL, now())`)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	collector := projections.NewCollector(pool, func() time.Time { return now })
	want := map[string]float64{
		"novelgate_projections_up":          1,
		"novelgate_projection_failed bad":   1,
		"novelgate_projection_failed good":  0,
		"novelgate_projection_diverged bad": 0, "novelgate_projection_diverged good": 0,
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
	testdb.Eventually(t, "settled", func() bool {
		now = now.Add(time.Second)
		return gather(t, collector)["novelgate_projection_lag_events good"] == 3
	})
}

func assertMetrics(t *testing.T, collector prometheus.Collector, want map[string]float64) {
	t.Helper()
	if diff := cmp.Diff(want, gather(t, collector)); diff != "" {
		t.Errorf("metrics differ (-want +got):\n%s", diff)
	}
}

// gather returns the values of a collector's gauges by name and label values.
func gather(t *testing.T, collector prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector)
	families, err := registry.Gather()
	if err != nil {
		t.Fatalf("gather metrics: %v", err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += " " + label.GetValue()
			}
			values[name] = metric.GetGauge().GetValue()
		}
	}
	return values
}

// gatherInTime returns the values once the database has answered within the time limit of the collector, which a busy
// machine may miss. again is called before each further attempt.
func gatherInTime(t *testing.T, collector prometheus.Collector, again func()) (values map[string]float64) {
	t.Helper()
	testdb.Eventually(t, "the database answers in time", func() bool {
		if values != nil {
			again()
		}
		values = gather(t, collector)
		return values["novelgate_projections_up"] == 1
	})
	return values
}

func TestCollectorWithoutDatabase(t *testing.T) {
	t.Parallel()
	assertMetrics(t, projections.NewCollector(away{}, time.Now), map[string]float64{"novelgate_projections_up": 0})
}

// away is a database that does not answer.
type away struct{ database.Querier }

func (away) Query(context.Context, string, ...any) (pgx.Rows, error) { return nil, errors.New("away") }
