package blackbox

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"novelgate/internal/testdb"
)

// pollInterval is short beside everything that tests wait for.
const pollInterval = 20 * time.Millisecond

// Soon is how long a change by staff or a projection may take on a busy machine. That it is a second at most is proved
// where it is measured.
const Soon = 30 * time.Second

// Eventually polls until ok holds, and fails the test when it does not within the time.
func Eventually(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	for !ok() {
		select {
		case <-timeout.C:
			t.Fatalf("not within %v: %s", within, what)
		case <-time.After(pollInterval):
		}
	}
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
