package analytics

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
)

// writeCSV writes the rows as CSV, which the server formats.
func writeCSV(ctx context.Context, tx pgx.Tx, view View, out io.Writer, report progress) (int64, error) {
	buffered := bufio.NewWriterSize(out, 1<<16)
	tag, err := tx.Conn().PgConn().CopyTo(ctx, &rowWriter{out: buffered, report: report},
		"COPY ("+view.query()+") TO STDOUT WITH (FORMAT csv, HEADER)")
	if err != nil {
		return 0, fmt.Errorf("copy: %w", err)
	}
	if err := buffered.Flush(); err != nil {
		return 0, fmt.Errorf("write: %w", err)
	}
	report(tag.RowsAffected(), true)
	return tag.RowsAffected(), nil
}

// rowWriter writes and counts rows. The server sends each row as one message (PostgreSQL protocol, COPY operations),
// and each message arrives in one Write.
type rowWriter struct {
	out      io.Writer
	report   progress
	messages int64 // written; the first is the header
}

// Write implements io.Writer.
func (w *rowWriter) Write(message []byte) (int, error) {
	n, err := w.out.Write(message)
	if err != nil {
		return n, err
	}
	w.messages++
	if rows := w.messages - 1; rows > 0 {
		w.report(rows, false)
	}
	return n, nil
}
