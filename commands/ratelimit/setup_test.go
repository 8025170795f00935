package ratelimit_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/commands/ratelimit"
	"novelgate/internal/testdb"
)

func TestMain(m *testing.M) { os.Exit(testdb.Run(m)) }

// fixture is a database, two replicas that share it, and a window.
type fixture struct {
	pool     *pgxpool.Pool
	replicas []*ratelimit.Limiter
	key      ratelimit.Key
}

func setup(t testing.TB) *fixture {
	t.Helper()
	return &fixture{
		pool:     testdb.Pool(t, testdb.New(t)),
		replicas: []*ratelimit.Limiter{ratelimit.New(time.Now), ratelimit.New(time.Now)},
		key:      ratelimit.Key{Integration: uuid.New(), Operation: ratelimit.Lines},
	}
}

// take takes permits from a replica. It may be called from any goroutine.
func (f *fixture) take(t testing.TB, replica, limit, n int) ratelimit.Decision {
	t.Helper()
	d, err := f.replicas[replica].Take(t.Context(), f.pool, f.key, limit, n)
	if err != nil {
		t.Errorf("take %d of %d: %v", n, limit, err)
		return d
	}
	if d.Granted < 0 || d.Granted > n || d.Limit != limit || d.Remaining < 0 || d.Remaining > limit ||
		(d.Granted < n) != (d.RetryAfter > 0) {
		t.Errorf("take %d of %d: contradictory decision %+v", n, limit, d)
	}
	return d
}

// pass lets seconds pass: it makes all permits older, or newer as if the clock was set back.
func (f *fixture) pass(t testing.TB, seconds int) {
	t.Helper()
	// Sorted, so that all rows are deleted before the first one is inserted.
	testdb.Exec(t, f.pool, `WITH gone AS (DELETE FROM rate_limits RETURNING *)
		INSERT INTO rate_limits SELECT integration_id, operation, second - $1, permits FROM gone ORDER BY second`, seconds)
}

// stored returns the number of permits in the table.
func (f *fixture) stored(t testing.TB) int {
	t.Helper()
	return testdb.Value[int](t, f.pool, `SELECT coalesce(sum(permits), 0) FROM rate_limits`)
}

// isRefusal reports whether the database has refused a take.
func isRefusal(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == "NG001"
}
