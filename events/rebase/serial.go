package rebase

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"

	"novelgate/internal/database"
)

// serial lets several goroutines read through one transaction, one at a time. Other connections do not see its
// uncommitted rows.
type serial struct {
	mu sync.Mutex
	db database.Querier
}

// Query blocks other goroutines until the rows are closed.
func (s *serial) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	s.mu.Lock()
	rows, err := s.db.Query(ctx, sql, args...)
	if err != nil {
		s.mu.Unlock()
		return nil, err //nolint:wrapcheck // the caller says what was read
	}
	return &serialRows{Rows: rows, unlock: sync.OnceFunc(s.mu.Unlock)}, nil
}

// QueryRow blocks other goroutines until the row is scanned.
func (s *serial) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	s.mu.Lock()
	return serialRow{Row: s.db.QueryRow(ctx, sql, args...), unlock: sync.OnceFunc(s.mu.Unlock)}
}

type serialRows struct {
	pgx.Rows
	unlock func()
}

// Close implements pgx.Rows.
func (r *serialRows) Close() {
	r.Rows.Close()
	r.unlock()
}

type serialRow struct {
	pgx.Row
	unlock func()
}

// Scan implements pgx.Row.
func (r serialRow) Scan(dest ...any) error {
	defer r.unlock()
	return r.Row.Scan(dest...) //nolint:wrapcheck // the caller says what was read
}
