package staff

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Place is the place of a row in a list sorted by time and id. Neither changes, so new rows do not move it. The zero
// Place is before every row.
type Place struct {
	At time.Time // whole microseconds, like the column
	ID uuid.UUID
}

// find reads the one row of a query. It fails with notFound when there is none. what names the object in errors.
func find[T any](
	ctx context.Context, s *Staff, what string, notFound error, scan pgx.RowToFunc[T], sql string, args ...any,
) (T, error) {
	var none T
	rows, err := s.Pool.Query(ctx, sql, args...)
	if err != nil {
		return none, fmt.Errorf("find %s: %w", what, err)
	}
	found, err := pgx.CollectExactlyOneRow(rows, scan)
	if errors.Is(err, pgx.ErrNoRows) {
		return none, notFound
	}
	if err != nil {
		return none, fmt.Errorf("find %s: %w", what, err)
	}
	return found, nil
}

// list reads all rows of a query. what names the objects in errors.
func list[T any](
	ctx context.Context, s *Staff, what string, scan pgx.RowToFunc[T], sql string, args ...any,
) ([]T, error) {
	rows, err := s.Pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", what, err)
	}
	found, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", what, err)
	}
	return found, nil
}
