package analytics

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Format is the format of a file.
type Format string

// Formats.
const (
	// CSV has a header and values in PostgreSQL's format: times in UTC with their offset, arrays as {a,b}, NULL as an
	// empty field and the empty string as "".
	CSV Format = "csv"
	// Parquet has optional columns only, because a view does not declare NOT NULL. See parquetTypes for the types.
	Parquet Format = "parquet"
)

// Snapshot exports views as of one moment, until Close.
type Snapshot struct {
	// AsOf is the least as_of of analytics.freshness: what is recorded before is in all views. A next export that asks for
	// what has changed since misses nothing.
	AsOf time.Time
	// ChangedSince, unless empty, limits the rows of views with a changed_at.
	ChangedSince string

	tx pgx.Tx
}

// openSQL begins an export. $1: a time, or "".
const openSQL = `SELECT coalesce((SELECT min(as_of) FROM analytics.freshness), now()), coalesce(nullif($1, '')::timestamptz::text, ''),
    set_config('datestyle', 'ISO', true), set_config('bytea_output', 'hex', true)`

// Open takes a snapshot. changedSince is a time as PostgreSQL reads it, in UTC unless it has a zone, or empty.
func Open(ctx context.Context, db *pgxpool.Pool, changedSince string) (s *Snapshot, err error) {
	s = &Snapshot{}
	if s.tx, err = db.BeginTx(ctx, pgx.TxOptions{
		BeginQuery: `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL timezone = 'UTC'`,
	}); err != nil {
		return nil, fmt.Errorf("begin export: %w", err)
	}
	if err = s.tx.QueryRow(ctx, openSQL, changedSince).Scan(&s.AsOf, &s.ChangedSince, nil, nil); err != nil {
		s.Close(ctx)
		return nil, fmt.Errorf("begin export: %w", err)
	}
	s.AsOf = s.AsOf.UTC()
	return s, nil
}

// Close ends the snapshot.
func (s *Snapshot) Close(ctx context.Context) {
	_ = s.tx.Rollback(context.WithoutCancel(ctx)) // nothing was written
}

// Views returns the views, sorted by name.
func (s *Snapshot) Views(ctx context.Context) ([]View, error) { return Views(ctx, s.tx) }

// Find returns the view with this name. It fails with ErrUnknownView and the list of the existing views.
func (s *Snapshot) Find(ctx context.Context, name string) (View, error) { return find(ctx, s.tx, name) }

// Export writes a view, in no particular order, and returns the number of rows. It never holds all rows in memory.
// After an error the written file is incomplete, and the snapshot is of no use.
func (s *Snapshot) Export(ctx context.Context, view View, format Format, out io.Writer) (rows int64, err error) {
	if view.HasChangedAt() {
		view.since = s.ChangedSince
	}
	buffered := bufio.NewWriterSize(out, 1<<16)
	switch format {
	case CSV: // the server formats the rows
		tag, copyErr := s.tx.Conn().PgConn().CopyTo(ctx, buffered,
			"COPY ("+view.query()+") TO STDOUT WITH (FORMAT csv, HEADER)")
		rows, err = tag.RowsAffected(), copyErr
	case Parquet:
		rows, err = s.writeParquet(ctx, view, buffered)
	default:
		return 0, fmt.Errorf("unknown format %q: use %s or %s", format, CSV, Parquet)
	}
	if err == nil {
		err = buffered.Flush()
	}
	if err != nil {
		return rows, fmt.Errorf("export %s: %w", view.Name, err)
	}
	return rows, nil
}
