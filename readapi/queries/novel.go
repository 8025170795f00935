package queries

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/novel"
	"novelgate/internal/database"
)

// What can be wrong with an address.
var (
	ErrNotFound = errors.New("there is no such novel or comment for the public")
	ErrGone     = errors.New("staff declined the novel")
)

// Novel is a novel that the public may see.
type Novel struct {
	ID       uuid.UUID
	Slug     string
	Title    string
	State    novel.State // Approved or Published
	Platform string      // name of the partner platform that it came from; "" when it is the host platform's
	novel.Details
}

// visible returns nil for a novel that the public may see.
func visible(state novel.State) error {
	switch state {
	case novel.Approved, novel.Published:
		return nil
	case novel.Rejected:
		return ErrGone
	default:
		return ErrNotFound
	}
}

// Reader reads from the read models, and from the event log what they do not show yet.
type Reader struct {
	DB database.Querier
}

//go:embed novel.sql
var novelSQL string

// Novel returns a novel by its slug, as it was at a moment in the past unless that is nil. It fails with ErrNotFound or
// ErrGone.
func (r *Reader) Novel(ctx context.Context, slug string, asOf *time.Time) (Novel, error) {
	n, err := one(ctx, r.DB, scanNovel, novelSQL, slug)
	if errors.Is(err, pgx.ErrNoRows) {
		return Novel{}, ErrNotFound
	}
	if err != nil {
		return Novel{}, fmt.Errorf("read novel: %w", err)
	}
	if err := visible(n.State); err != nil {
		return Novel{}, err
	}
	if asOf == nil {
		return n, nil
	}
	return r.novelAsOf(ctx, n, *asOf)
}

// scanNovel reads a row of novel.sql.
func scanNovel(row pgx.CollectableRow) (Novel, error) {
	var n Novel
	var details []byte
	if err := row.Scan(&n.ID, &n.Slug, &n.Title, &n.State, &n.Platform, &details); err != nil {
		return Novel{}, fmt.Errorf("scan novel: %w", err)
	}
	if err := json.Unmarshal(details, &n.Details); err != nil {
		return Novel{}, fmt.Errorf("decode details of novel %s: %w", n.ID, err)
	}
	return n, nil
}

// one reads the one row of a query, pgx.ErrNoRows when there is none.
func one[T any](ctx context.Context, db database.Querier, scan pgx.RowToFunc[T], sql string, args ...any) (T, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		var none T
		return none, err //nolint:wrapcheck // callers say what they were reading
	}
	return pgx.CollectExactlyOneRow(rows, scan)
}
