package e2e_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"novelgate/internal/testdb"
)

// awaitSealed waits until the ledger has signed all that is on record.
func awaitSealed(t testing.TB, databaseURL string) {
	t.Helper()
	testdb.Eventually(t, "everything is sealed and signed", func() bool {
		return value[bool](t, databaseURL, `SELECT (SELECT count(*) FROM public.events) =
			(SELECT coalesce(max(tree_size), 0) FROM public.ledger_checkpoints)`)
	})
}

// Projected polls the analytics tables with the query until it returns a row, scans that row into into, and returns.
// Asynchronous projections get a generous time: this is about what they hold, not how fast, and a transaction that
// another test holds open in the same PostgreSQL delays them.
func (s *Service) Projected(t testing.TB, into []any, query string, args ...any) {
	t.Helper()
	ctx := context.Background()
	connection, err := pgx.Connect(ctx, s.DatabaseURL)
	if err != nil {
		t.Fatalf("connect to the database: %v", err)
	}
	defer func() { _ = connection.Close(ctx) }()
	testdb.Eventually(t, query, func() bool {
		err := connection.QueryRow(ctx, query, args...).Scan(into...)
		switch {
		case err == nil:
			return true
		case errors.Is(err, pgx.ErrNoRows):
			return false
		default:
			t.Fatalf("query the analytics tables: %v\n%s", err, query)
			return false
		}
	})
}
