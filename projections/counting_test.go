package projections_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// counting writes one row for each application of an event, which shows events that are applied twice, out of order or
// not at all.
type counting struct{ name string }

func (c counting) Name() string { return c.name }

func (c counting) Generation() int { return 1 }

func (c counting) Streams() []string { return nil }

func (c counting) Tables() []string { return []string{"applied_" + c.name} }

func (c counting) Apply(ctx context.Context, tx database.Execer, batch []events.Recorded) error {
	_, err := tx.Exec(ctx, fmt.Sprintf(`INSERT INTO applied_%s (log_index)
		SELECT e.log_index FROM unnest($1::bigint[]) WITH ORDINALITY AS e (log_index, n) ORDER BY n`, c.name), indexes(batch))
	return err
}

// newCounting returns a counting projection with its table.
func newCounting(t testing.TB, pool *pgxpool.Pool, name string) counting {
	t.Helper()
	testdb.Exec(t, pool, fmt.Sprintf(`CREATE TABLE applied_%s (
		n bigint GENERATED ALWAYS AS IDENTITY, log_index bigint NOT NULL)`, name))
	return counting{name: name}
}

// applied returns the log indexes of the applied events in the order of application.
func (c counting) applied(t testing.TB, pool *pgxpool.Pool) []int64 {
	t.Helper()
	rows := testdb.Must(pool.Query(context.Background(),
		fmt.Sprintf(`SELECT log_index FROM applied_%s ORDER BY n`, c.name)))(t)
	return testdb.Must(pgx.CollectRows(rows, pgx.RowTo[int64]))(t)
}

// wantApplied checks how many events were applied.
func (c counting) wantApplied(t testing.TB, pool *pgxpool.Pool, want int) {
	t.Helper()
	if n := len(c.applied(t, pool)); n != want {
		t.Errorf("%s has applied %d events, want %d", c.name, n, want)
	}
}

func awaitFailed(t testing.TB, pool *pgxpool.Pool, name string) {
	t.Helper()
	testdb.Eventually(t, name+" has failed", func() bool { return status(t, pool, name).State == projections.Failed })
}

// assertAll checks that each event of the log was applied exactly once, in order.
func (c counting) assertAll(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	if diff := cmp.Diff(indexes(readAll(t, pool)), c.applied(t, pool)); diff != "" {
		t.Errorf("events in the log and those that %s applied differ (-log +applied):\n%.2000s", c.name, diff)
	}
}

// readAll returns the log.
func readAll(t testing.TB, pool *pgxpool.Pool) []events.Recorded {
	t.Helper()
	return testdb.Must(eventlog.ReadFrom(context.Background(), pool, 0, 1_000_000))(t)
}

func indexes(recorded []events.Recorded) []int64 {
	list := make([]int64, len(recorded))
	for i := range recorded {
		list[i] = recorded[i].LogIndex
	}
	return list
}
