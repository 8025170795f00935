package analytics

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"

	"novelgate/internal/database"
)

// Format is the format of a file.
type Format string

// Formats.
const (
	// CSV has a header and values in PostgreSQL's format: times in UTC with their offset, arrays as {a,b}, NULL as an
	// empty field and the empty string as "".
	CSV Format = "csv"
	// Parquet has optional columns only, because a view does not declare NOT NULL. See parquetColumns for the types.
	Parquet Format = "parquet"
)

// Export configures an export.
type Export struct {
	View   string // name of a view of the schema analytics
	Format Format
	// CreatedBy names the program in Parquet's form: "novelgate version 1.0.0 (build 0123456)". Default: "novelgate".
	CreatedBy string
	// Progress is called after every thousand rows and at the end, with the numbers of written rows and of all rows.
	// Default: none, and the rows are not counted in advance.
	Progress func(rows, total int64)
}

const sessionSQL = `SELECT set_config('timezone', 'UTC', true), set_config('datestyle', 'ISO', true), set_config('bytea_output', 'hex', true)`

// Run writes one snapshot of the view, in no particular order, and returns the number of rows. It never holds all rows
// in memory. It fails with ErrUnknownView. After an error the written file is incomplete.
func (e Export) Run(ctx context.Context, db database.Beginner, out io.Writer) (rows int64, err error) {
	// The catalogue, the count and the rows come from one snapshot.
	tx, err := db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return 0, fmt.Errorf("begin export: %w", err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // nothing was written
	if _, err := tx.Exec(ctx, sessionSQL); err != nil {
		return 0, fmt.Errorf("begin export: %w", err)
	}
	view, err := find(ctx, tx, e.View)
	if err != nil {
		return 0, err
	}
	progress, err := e.newProgress(ctx, tx, view)
	if err != nil {
		return 0, err
	}
	switch e.Format {
	case CSV:
		rows, err = writeCSV(ctx, tx, view, out, progress)
	case Parquet:
		rows, err = writeParquet(ctx, tx, view, out, cmp.Or(e.CreatedBy, "novelgate"), progress)
	default:
		return 0, fmt.Errorf("unknown format %q: use %s or %s", e.Format, CSV, Parquet)
	}
	if err != nil {
		return rows, fmt.Errorf("export %s: %w", e.View, err)
	}
	return rows, nil
}

// progressEvery is the number of rows between two calls of Progress.
const progressEvery = 1000

// progress gets the number of rows written so far: after each row and, with all, after all rows.
type progress func(rows int64, all bool)

// newProgress counts the rows of the view, if Progress is set, and returns the function that calls it.
func (e Export) newProgress(ctx context.Context, tx pgx.Tx, view View) (progress, error) {
	if e.Progress == nil {
		return func(int64, bool) {}, nil
	}
	var total int64
	if err := tx.QueryRow(ctx, "SELECT count(*) FROM "+view.table()).Scan(&total); err != nil {
		return nil, fmt.Errorf("count rows of %s: %w", view.Name, err)
	}
	return func(rows int64, all bool) {
		if all || rows%progressEvery == 0 {
			e.Progress(rows, total)
		}
	}, nil
}
