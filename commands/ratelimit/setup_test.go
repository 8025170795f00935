package ratelimit_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
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

// transaction does what the committer does with windows of these limits, and commits or rolls back.
func (f *fixture) transaction(
	t testing.TB, replica int, commit bool, take func(*ratelimit.Grants), limits map[ratelimit.Key]int,
) {
	t.Helper()
	tx := testdb.Begin(t, f.pool)
	grants := f.replicas[replica].NewGrants()
	for k, limit := range limits {
		grants.Want(k, limit)
	}
	var read, store pgx.Batch
	read.Queue(lockSQL)
	grants.QueueRead(&read)
	err := tx.SendBatch(t.Context(), &read).Close()
	if err == nil {
		take(grants)
		grants.QueueGrant(&store)
		err = tx.SendBatch(t.Context(), &store).Close()
	}
	switch {
	case err == nil && commit:
		err = tx.Commit(t.Context())
		grants.Committed()
	case err == nil:
		err = tx.Rollback(t.Context())
	}
	if err != nil {
		t.Errorf("take permits: %v", err)
	}
}

// lockSQL stands for the lock of the log.
const lockSQL = `SELECT pg_advisory_xact_lock(1)`

// take takes up to n permits, as many as are free. It may be called from any goroutine.
func (f *fixture) take(t testing.TB, replica, limit, n int) (d ratelimit.Decision) {
	t.Helper()
	f.transaction(t, replica, true, func(grants *ratelimit.Grants) { d = grants.Take(f.key, n) },
		map[ratelimit.Key]int{f.key: limit})
	if d.Granted < 0 || d.Granted > n || d.Limit != limit || d.Remaining < 0 || d.Remaining > limit ||
		(d.Granted < n) != (d.RetryAfter > 0) {
		t.Errorf("take %d of %d: contradictory decision %+v", n, limit, d)
	}
	return d
}

// takeAll takes n permits, all or none, without a read before. It may be called from any goroutine.
func (f *fixture) takeAll(t testing.TB, replica, limit, n int) bool {
	t.Helper()
	grants := f.replicas[replica].NewGrants()
	grants.Want(f.key, limit)
	if d := grants.Take(f.key, n); d.Granted != n {
		t.Errorf("without a read: %+v", d)
	}
	var batch pgx.Batch
	batch.Queue(lockSQL)
	grants.QueueGrant(&batch)
	if err := f.pool.SendBatch(t.Context(), &batch).Close(); err != nil {
		if refused := new(pgconn.PgError); !errors.As(err, &refused) || refused.Code != "NG001" {
			t.Errorf("take %d of %d: %v", n, limit, err)
		}
		return false
	}
	grants.Committed()
	return true
}

// pass lets time pass: it makes all permits older, or newer as if the clock was set back.
func (f *fixture) pass(t testing.TB, d time.Duration) {
	t.Helper()
	// Sorted, so that all rows are deleted before the first one is inserted.
	testdb.Exec(t, f.pool, `WITH gone AS (DELETE FROM rate_limits RETURNING *)
		INSERT INTO rate_limits SELECT integration_id, operation, granted_at - $1::interval, permits, total FROM gone ORDER BY total`, d)
}

// stored returns the number of permits in the table.
func (f *fixture) stored(t testing.TB) int {
	t.Helper()
	return testdb.Value[int](t, f.pool, `SELECT coalesce(sum(permits), 0) FROM rate_limits`)
}
