package database

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Querier reads: a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Collect returns the rows of a query. The error names what was read.
func Collect[T any](
	ctx context.Context, db Querier, what string, scan pgx.RowToFunc[T], sql string, args ...any,
) ([]T, error) {
	rows, _ := db.Query(ctx, sql, args...) // CollectRows has the error
	found, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	return found, nil
}

// UTC converts times that were read from the database, which have the local time zone; nil stays nil.
func UTC(times ...*time.Time) {
	for _, t := range times {
		if t != nil {
			*t = t.UTC()
		}
	}
}

// Execer executes statements without result rows: a pool, a connection, a transaction, or a batch of queued statements.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// DB reads and writes: a pool, a connection or a transaction.
type DB interface {
	Querier
	Execer
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}
