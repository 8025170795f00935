package analytics

import (
	"bufio"
	"context"
	"fmt"
	"io"

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

const sessionSQL = `SELECT set_config('timezone', 'UTC', true), set_config('datestyle', 'ISO', true), set_config('bytea_output', 'hex', true)`

// Export writes one snapshot of a view of the schema analytics, in no particular order, and returns the number of rows.
// It never holds all rows in memory. It fails with ErrUnknownView. After an error the written file is incomplete.
func Export(
	ctx context.Context, db *pgxpool.Pool, name string, format Format, out io.Writer,
) (rows int64, err error) {
	// The catalogue and the rows come from one snapshot.
	tx, err := db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return 0, fmt.Errorf("begin export: %w", err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // nothing was written
	if _, err := tx.Exec(ctx, sessionSQL); err != nil {
		return 0, fmt.Errorf("begin export: %w", err)
	}
	view, err := find(ctx, tx, name)
	if err != nil {
		return 0, err
	}
	buffered := bufio.NewWriterSize(out, 1<<16)
	switch format {
	case CSV: // the server formats the rows
		tag, copyErr := tx.Conn().PgConn().CopyTo(ctx, buffered,
			"COPY ("+view.query()+") TO STDOUT WITH (FORMAT csv, HEADER)")
		rows, err = tag.RowsAffected(), copyErr
	case Parquet:
		rows, err = writeParquet(ctx, tx, view, buffered)
	default:
		return 0, fmt.Errorf("unknown format %q: use %s or %s", format, CSV, Parquet)
	}
	if err == nil {
		err = buffered.Flush()
	}
	if err != nil {
		return rows, fmt.Errorf("export %s: %w", name, err)
	}
	return rows, nil
}
