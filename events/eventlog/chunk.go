package eventlog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/internal/database"
)

// Span is a part of the log that was read.
type Span struct {
	Start events.Position
	End   Mark
	Read  int  // number of events, also of other stream types
	Full  bool // more events may follow
}

// Chunk is a part of the log with its events.
type Chunk struct {
	Span

	Events      []events.Recorded   // of the requested stream types, in log order
	Undecodable []*UndecodableError // of the requested stream types, in log order
}

// rowsSQL reads the events from a position on. $1: log index of the first one, $2: maximum number of events.
const rowsSQL = `SELECT ` + Columns + `
FROM events WHERE log_index >= $1 ORDER BY log_index LIMIT $2`

// ReadRows calls each with the first events from a mark on, in log order. A row and its bytes are valid until the next
// call. It fails with ErrOtherLog, before the first call, if the log does not have the mark; on a standby that may be
// because of its lag. If the batch of the mark is zero, it checks nothing.
func ReadRows(
	ctx context.Context, q database.Querier, from Mark, fetch *FetchSize, each func(*Row) error,
) (Span, error) {
	span, err := readRows(ctx, q, from, fetch, each)
	if err != nil {
		return Span{}, fmt.Errorf("read log from %s: %w", from, err)
	}
	return span, nil
}

// ErrGap means that an index is missing or out of order: somebody has changed the table without the lock of the log.
var ErrGap = errors.New("the log is damaged: indexes of events are not consecutive")

func readRows(
	ctx context.Context, q database.Querier, from Mark, fetch *FetchSize, each func(*Row) error,
) (span Span, err error) {
	span = Span{Start: from.Position, End: from}
	first, limit := from.Position, fetch.Limit()
	if from.known() { // read the event before the mark, too
		first, limit = first-1, limit+1
	}
	rows, err := q.Query(ctx, rowsSQL, first, limit)
	if err != nil {
		return Span{}, err
	}
	defer rows.Close()
	var row Row
	if from.known() {
		if err := skipMarked(rows, &row, from); err != nil {
			return Span{}, err
		}
	}
	bytes := 0
	for !enoughBytes(bytes) && rows.Next() {
		if err := row.set(rows.RawValues()); err != nil {
			return Span{}, err
		}
		if row.LogIndex != int64(span.End.Position) {
			return Span{}, fmt.Errorf("%w: %d instead of %d", ErrGap, row.LogIndex, span.End.Position)
		}
		if err := each(&row); err != nil {
			return Span{}, err
		}
		span.Read++
		span.End = row.mark()
		bytes += row.size()
	}
	rows.Close()
	span.Full = fetch.finishRead(span.Read, bytes)
	return span, rows.Err()
}

// skipMarked reads the event before a mark. It fails with ErrOtherLog if there is another one, or none.
func skipMarked(rows pgx.Rows, row *Row, from Mark) error {
	if !rows.Next() {
		rows.Close()
		if err := rows.Err(); err != nil {
			return err
		}
		return ErrOtherLog
	}
	if err := row.set(rows.RawValues()); err != nil {
		return err
	}
	if row.mark() != from {
		return ErrOtherLog
	}
	return nil
}

// ReadChunk returns the first events from a mark on. It keeps those whose stream type is in streamTypes (nil keeps
// all). Its errors are those of ReadRows.
func ReadChunk(
	ctx context.Context, q database.Querier, from Mark, fetch *FetchSize, streamTypes []string,
) (chunk Chunk, err error) {
	chunk.Events = []events.Recorded{}
	chunk.Span, err = ReadRows(ctx, q, from, fetch, func(row *Row) error {
		if !includes(streamTypes, row.StreamType) {
			return nil
		}
		if len(chunk.Events) == 0 { // allocated here, so that a read without events allocates nothing
			chunk.Events = make([]events.Recorded, 0, fetch.lastCount+1)
		}
		chunk.add(row)
		return nil
	})
	return chunk, err
}

// add appends the event of a row, or the error of decoding it.
func (c *Chunk) add(row *Row) {
	recorded, undecodable := row.decode()
	if undecodable != nil {
		c.Undecodable = append(c.Undecodable, undecodable)
		return
	}
	c.Events = append(c.Events, recorded)
}

// includes reports whether streamTypes contains a stream type; nil contains all.
func includes(streamTypes []string, streamType string) bool {
	return streamTypes == nil || slices.Contains(streamTypes, streamType)
}

// Connect opens a connection for reading the log.
func Connect(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect to read the log: %w", err)
	}
	if err := SetUpReader(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return conn, nil
}

// SetUpReader prepares a connection for reading the log: only index scans, because a plan that was made while the log
// was empty would later sort the whole log.
func SetUpReader(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, `SET enable_seqscan = off; SET enable_bitmapscan = off; SET jit = off`); err != nil {
		return fmt.Errorf("set up connection to read the log: %w", err)
	}
	return nil
}
