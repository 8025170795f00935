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
	// CSV has a header, and values as PostgreSQL writes them: times in UTC with their offset, arrays as {a,b}, NULL as an
	// empty field and the empty string as "".
	CSV Format = "csv"
	// Parquet has all columns optional, since a view does not say which are never NULL. See parquetColumns for the types.
	Parquet Format = "parquet"
)

// Export says what to export.
type Export struct {
	View   string // name of a view of the schema analytics
	Format Format
	// CreatedBy is the program, in the form that Parquet wants: "novelgate version 1.0.0 (build 0123456)". Default:
	// "novelgate".
	CreatedBy string
	// Progress is told how many rows are written, now and then and at the end, and how many there are in all. Default:
	// nobody is, and rows are not counted beforehand.
	Progress func(rows, total int64)
}

const sessionSQL = `SELECT set_config('timezone', 'UTC', true), set_config('datestyle', 'ISO', true), set_config('bytea_output', 'hex', true)`

// Run writes the view as it is at one moment, in no particular order, and returns the number of rows. It keeps no more
// than a part of them in memory. It fails with ErrUnknownView. After an error, what was written is no complete file.
func (e Export) Run(ctx context.Context, db database.Beginner, out io.Writer) (rows int64, err error) {
	// One snapshot for the catalogue, the count and the rows.
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
	progress, err := e.count(ctx, tx, view)
	if err != nil {
		return 0, err
	}
	switch e.Format {
	case CSV:
		rows, err = writeCSV(ctx, tx, view, out, progress)
	case Parquet:
		rows, err = writeParquet(ctx, tx, view, out, cmp.Or(e.CreatedBy, "novelgate"), progress)
	default:
		return 0, fmt.Errorf("unknown format %q: there are %s, %s", e.Format, CSV, Parquet)
	}
	if err != nil {
		return rows, fmt.Errorf("export %s: %w", e.View, err)
	}
	return rows, nil
}

// progressEvery is how many rows pass between two reports of progress.
const progressEvery = 1000

// count returns what to call with the number of rows written so far.
func (e Export) count(ctx context.Context, tx pgx.Tx, view View) (func(rows int64, last bool), error) {
	if e.Progress == nil {
		return func(int64, bool) {}, nil
	}
	var total int64
	if err := tx.QueryRow(ctx, "SELECT count(*) FROM "+view.table()).Scan(&total); err != nil {
		return nil, fmt.Errorf("count rows of %s: %w", view.Name, err)
	}
	return func(rows int64, last bool) {
		if last || rows%progressEvery == 0 {
			e.Progress(rows, total)
		}
	}, nil
}
