package projections_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

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
		s.Generation != (projections.Posts{}).Generation() || s.Position != 5 {
		t.Errorf("status when caught up: %+v", s)
	}
	stop()
	begun := time.Now()
	append1(t, pool, comments(random, "two", 5)...)
	append1(t, pool, comments(random, "three", 5)...)
	time.Sleep(10 * time.Millisecond)
	if s := status(t, pool, "posts"); s.LagEvents != 10 || s.LagSeconds < 0.01 ||
		s.LagSeconds > time.Since(begun).Seconds() {
		t.Errorf("status when behind: %+v", s)
	}
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
	away := testdb.Must(pgxpool.New(t.Context(), "postgres://127.0.0.1:1/none"))(t)
	defer away.Close()
	assertMetrics(t, projections.NewCollector(away, time.Now), map[string]float64{"novelgate_projections_up": 0})
}
