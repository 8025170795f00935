package projections_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

// counting writes one row for each application of an event, which shows events that are applied twice, out of order or
// not at all.
type counting struct{ name string }

func (c counting) Name() string { return c.name }

func (c counting) Generation() int { return 1 }

func (c counting) Streams() []string { return nil }

func (c counting) Tables() []string { return []string{"applied_" + c.name} }

func (c counting) Apply(ctx context.Context, tx database.Execer, batch []events.Recorded) error {
	transactions, positions := make([]pgtype.Uint64, len(batch)), make([]int32, len(batch))
	for i, recorded := range batch {
		transactions[i], positions[i] = pgtype.Uint64{Uint64: recorded.Position.TransactionID, Valid: true},
			recorded.Position.Ordinal
	}
	_, err := tx.Exec(ctx, fmt.Sprintf(`INSERT INTO applied_%s (transaction_id, position)
		SELECT e.transaction_id, e.position FROM unnest($1::xid8[], $2::integer[]) WITH ORDINALITY AS e (transaction_id, position, n) ORDER BY n`, c.name),
		transactions, positions)
	return err
}

// newCounting returns a counting projection with its table.
func newCounting(t testing.TB, pool *pgxpool.Pool, name string) counting {
	t.Helper()
	testdb.Exec(t, pool, fmt.Sprintf(`CREATE TABLE applied_%s (
		n bigint GENERATED ALWAYS AS IDENTITY, transaction_id xid8 NOT NULL, position integer NOT NULL)`, name))
	return counting{name: name}
}

// applied returns the applied positions in the order of application.
func (c counting) applied(t testing.TB, pool *pgxpool.Pool) []events.Position {
	t.Helper()
	rows, err := pool.Query(context.Background(),
		fmt.Sprintf(`SELECT transaction_id, position FROM applied_%s ORDER BY n`, c.name))
	if err != nil {
		t.Fatalf("read what was applied: %v", err)
	}
	positions, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p events.Position, err error) {
		return p, row.Scan(&p.TransactionID, &p.Ordinal)
	})
	if err != nil {
		t.Fatalf("read what was applied: %v", err)
	}
	return positions
}

// assertAll checks that each event of the log was applied exactly once, in order.
func (c counting) assertAll(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	if diff := cmp.Diff(positions(readAll(t, pool)), c.applied(t, pool)); diff != "" {
		t.Errorf("events in the log and those that %s applied differ (-log +applied):\n%.2000s", c.name, diff)
	}
}

// readAll returns the log once it is settled.
func readAll(t testing.TB, pool *pgxpool.Pool) (all []events.Recorded) {
	t.Helper()
	testdb.Eventually(t, "settled", func() bool {
		var err error
		if all, err = eventlog.ReadAfter(context.Background(), pool, events.Position{}, 1_000_000); err != nil {
			t.Fatalf("read log: %v", err)
		}
		return len(all) == count(t, pool, "events")
	})
	return all
}

func positions(recorded []events.Recorded) []events.Position {
	var list []events.Position
	for i := range recorded {
		list = append(list, recorded[i].Position)
	}
	return list
}
