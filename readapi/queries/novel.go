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

// Errors of an address.
var (
	ErrNotFound = errors.New("there is no such novel or comment for the public")
	ErrGone     = errors.New("staff declined the novel")
)

// Novel is a public novel.
type Novel struct {
	ID       uuid.UUID
	Slug     string
	Title    string
	State    novel.State // Approved or Published
	Platform string      // name of the owning partner platform; "" for the host platform
	novel.Details
}

// visible returns nil for a public novel, ErrGone or ErrNotFound for any other.
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

// Reader reads the read models, and the event log for comments that are not in them yet.
type Reader struct {
	DB database.Querier
}

//go:embed novel.sql
var novelSQL string

// Novel returns the novel with a slug, in its state at asOf, or now when asOf is nil. It fails with ErrNotFound or
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

// one reads the one row of a query. It fails with pgx.ErrNoRows when there is none.
func one[T any](ctx context.Context, db database.Querier, scan pgx.RowToFunc[T], sql string, args ...any) (T, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		var none T
		return none, err //nolint:wrapcheck // callers wrap it
	}
	return pgx.CollectExactlyOneRow(rows, scan)
}
