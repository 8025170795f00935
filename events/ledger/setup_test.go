package ledger_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/ledger"
	"novelgate/events/ledger/ledgertest"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

// newPool returns a pool on a new database.
func newPool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return openPool(t, testdb.New(t))
}

func openPool(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	pool := testdb.Must(database.OpenHistory(t.Context(), url))(t)
	t.Cleanup(pool.Close)
	return pool
}

// newSealedPool returns a pool on a database with sealed events and no running sealer.
func newSealedPool(t testing.TB, events int) *pgxpool.Pool {
	t.Helper()
	pool := newPool(t)
	appendEvents(t, pool, events)
	stop := startSealer(t, ledger.SealerConfig{Pool: pool})
	awaitSealed(t, pool)
	stop()
	return pool
}

// startSealer runs a sealer until stop is called or the test ends.
func startSealer(t testing.TB, config ledger.SealerConfig) (stop func()) {
	t.Helper()
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.Pace == 0 {
		config.Pace = time.Millisecond
	}
	sealer := ledger.NewSealer(config)
	return testdb.Background(t, sealer.Run)
}

// appendEvents appends events in one transaction.
func appendEvents(t testing.TB, pool *pgxpool.Pool, n int) {
	t.Helper()
	testdb.NoError(t, ledgertest.TryAppend(t.Context(), pool, n))
}

func count(t testing.TB, pool *pgxpool.Pool, table string) int64 {
	t.Helper()
	return testdb.Value[int64](t, pool, `SELECT count(*) FROM `+table)
}

// treeSize returns the number of sealed events.
func treeSize(t testing.TB, pool *pgxpool.Pool) int64 {
	t.Helper()
	return testdb.Value[int64](t, pool, `SELECT tree_size FROM ledger_state`)
}

// awaitSealed waits until all events are sealed.
func awaitSealed(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	want := count(t, pool, "events")
	testdb.Eventually(t, fmt.Sprint(want, " events are sealed"), func() bool { return treeSize(t, pool) == want })
}
