package eventlog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/events"
	"novelgate/internal/database"
)

// Span is a part of the log that was read.
type Span struct {
	Identity   Identity        // of the log; zero after ReadRange and ReadAt
	Start, End events.Position // Start is exclusive, End inclusive
	Read       int             // number of events, except after ReadRange also of other stream types
	Full       bool            // more events may follow
	Settled    bool            // no running transaction hides events after End
}

// Chunk is a part of the log with its events.
type Chunk struct {
	Span

	Events      []events.Recorded   // of the requested stream types, in log order; metadata only from a Tail
	Undecodable []*UndecodableError // of the requested stream types, in log order
}

// chunkSQL reads settled events without metadata; rowsSQL reads them with metadata. The last two columns of a row are
// settled (true if no running transaction hides committed events) and the identity of the log. Without events there is
// one row, with only these two. $1, $2: position to start after, $3: maximum number of events.
const (
	chunkSQL = beforeColumns + columnsWithoutMetadata + afterColumns
	rowsSQL  = beforeColumns + Columns + afterColumns

	beforeColumns = `SELECT e.*, s.settled, ` + IdentitySQL + `
FROM (SELECT pg_snapshot_xmin(c) AS xmin, pg_snapshot_xmin(c) = pg_snapshot_xmax(c) AS settled
    FROM pg_current_snapshot() AS c) AS s
LEFT JOIN LATERAL (
    SELECT `
	afterColumns = `
    FROM events
    WHERE (transaction_id, position) > ($1, $2) AND transaction_id < s.xmin
    ORDER BY transaction_id, position LIMIT $3
) AS e ON true`
)

// ReadChunk returns the first settled events after a position. It keeps those whose stream type is in streamTypes (nil
// keeps all). A chunk that is not full ends with the last settled event.
func ReadChunk(
	ctx context.Context, q database.Querier, after events.Position, fetch *FetchSize, streamTypes []string,
) (Chunk, error) {
	chunk := Chunk{Span: Span{Start: after, End: after}}
	if err := chunk.read(ctx, q, fetch, streamTypes, chunkSQL, after.TransactionID, after.Ordinal,
		fetch.Limit()); err != nil {
		return Chunk{}, fmt.Errorf("read log after %s: %w", after, err)
	}
	return chunk, nil
}

// ReadRows calls each with the first settled events after a position, in log order. A row and its bytes are valid
// until the next call. If the log has another identity than expected, ReadRows fails with ErrOtherLog before the first
// call.
func ReadRows(
	ctx context.Context, q database.Querier, after events.Position, expected Identity, fetch *FetchSize,
	each func(*Row) error,
) (Span, error) {
	span := Span{Start: after, End: after}
	err := span.read(ctx, q, fetch, func(row *Row) error {
		if span.Identity != expected {
			return ErrOtherLog
		}
		return each(row)
	}, rowsSQL, after.TransactionID, after.Ordinal, fetch.Limit())
	if err == nil && span.Identity != expected {
		err = ErrOtherLog
	}
	if err != nil {
		return Span{}, fmt.Errorf("read log after %s: %w", after, err)
	}
	return span, nil
}

var errDisorder = errors.New("events are out of order")

// read fills the span and calls each with the rows of a statement. The statement selects the columnCount columns of a
// Row, optionally followed by settled and identity (see chunkSQL). read ends with the row that reaches MaxFetchBytes.
func (s *Span) read(
	ctx context.Context, q database.Querier, fetch *FetchSize, each func(*Row) error, sql string, args ...any,
) error {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	bytes := 0
	var row Row
	for !enoughBytes(bytes) && rows.Next() {
		values := rows.RawValues()
		if s.Read == 0 && len(values) > columnCount {
			found, err := s.scanHeader(rows)
			if err != nil {
				return err
			}
			if !found {
				break
			}
		}
		if err := row.set(values[:columnCount]); err != nil {
			return err
		}
		if row.Position.Compare(s.End) <= 0 {
			return fmt.Errorf("%w: %s after %s", errDisorder, row.Position, s.End)
		}
		if err := each(&row); err != nil {
			return err
		}
		s.Read++
		s.End = row.Position
		bytes += row.size()
	}
	rows.Close()
	s.Full = fetch.finishRead(s.Read, bytes)
	return rows.Err()
}

// scanHeader sets Settled and Identity from the last two columns of the first row of chunkSQL or rowsSQL. It reports
// whether the row has an event: if none was found, the columns of the event are NULL.
func (s *Span) scanHeader(rows pgx.Rows) (found bool, err error) {
	ofEvent := make([]any, columnCount, columnCount+2) // nil: Scan skips the column
	if err := rows.Scan(append(ofEvent, &s.Settled, &s.Identity)...); err != nil {
		return false, fmt.Errorf("scan identity of the log: %w", err)
	}
	return rows.RawValues()[0] != nil, nil
}

// Range is a part of the log: the events after After, up to and including UpTo.
type Range struct{ After, UpTo events.Position }

// readRangeSQL reads a range. $1, $2: position to start after, $3, $4: position to end with, $5: stream types, NULL for
// all, $6: maximum number of events.
const readRangeSQL = `SELECT ` + columnsWithoutMetadata + `
FROM events
WHERE (transaction_id, position) > ($1, $2) AND (transaction_id, position) <= ($3, $4)
    AND ($5::text[] IS NULL OR stream_type = ANY ($5))
ORDER BY transaction_id, position LIMIT $6`

// ReadRange returns the first events of a range of the log whose stream type is in streamTypes (nil: all types). Events
// of other types do not count. A chunk that is not full ends with the end of the range. The caller checks that the
// range is settled.
func ReadRange(
	ctx context.Context, q database.Querier, r Range, fetch *FetchSize, streamTypes []string,
) (Chunk, error) {
	chunk := Chunk{Span: Span{Start: r.After, End: r.After}}
	if err := chunk.read(ctx, q, fetch, streamTypes, readRangeSQL,
		r.After.TransactionID, r.After.Ordinal, r.UpTo.TransactionID, r.UpTo.Ordinal,
		streamTypes, fetch.Limit()); err != nil {
		return Chunk{}, fmt.Errorf("read log from %s to %s: %w", r.After, r.UpTo, err)
	}
	if !chunk.Full {
		chunk.End = r.UpTo
	}
	return chunk, nil
}

// read fills the chunk with the decoded rows of a statement for Span.read. It keeps the events whose stream type is in
// streamTypes (nil keeps all).
func (c *Chunk) read(
	ctx context.Context, q database.Querier, fetch *FetchSize, streamTypes []string, sql string, args ...any,
) error {
	c.Events = []events.Recorded{}
	return c.Span.read(ctx, q, fetch, func(row *Row) error {
		if !includes(streamTypes, row.StreamType) {
			return nil
		}
		if len(c.Events) == 0 { // allocated here, so that a read without events allocates nothing
			c.Events = make([]events.Recorded, 0, fetch.lastCount+1)
		}
		c.add(row)
		return nil
	}, sql, args...)
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

// readAtSQL reads single events. $1, $2: their positions.
const readAtSQL = `SELECT ` + columnsWithoutMetadata + `
FROM events
WHERE (transaction_id, position) IN (SELECT * FROM unnest($1::xid8[], $2::integer[]))
ORDER BY transaction_id, position`

// ReadAt returns the events at positions, which must be in log order and at most fetch.Limit(). If the events are
// large, it returns only the first ones. The chunk ends with the last event that was read.
func ReadAt(ctx context.Context, q database.Querier, positions []events.Position, fetch *FetchSize) (Chunk, error) {
	transactions, ordinals := make([]pgtype.Uint64, len(positions)), make([]int32, len(positions))
	for i, p := range positions {
		transactions[i], ordinals[i] = pgtype.Uint64{Uint64: p.TransactionID, Valid: true}, p.Ordinal
	}
	var chunk Chunk
	if err := chunk.read(ctx, q, fetch, nil, readAtSQL, transactions, ordinals); err != nil {
		return Chunk{}, fmt.Errorf("read %d events: %w", len(positions), err)
	}
	return chunk, nil
}

const lastSettledSQL = `SELECT transaction_id, position FROM events
WHERE transaction_id < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY transaction_id DESC, position DESC LIMIT 1`

// LastSettled returns the position of the last settled event; the zero position when there is none.
func LastSettled(ctx context.Context, q database.Querier) (events.Position, error) {
	return queryEnd(ctx, q, lastSettledSQL)
}

const lastSQL = `SELECT transaction_id, position FROM events ORDER BY transaction_id DESC, position DESC LIMIT 1`

// Last returns the position of the last committed event, settled or not; the zero position when there is none.
func Last(ctx context.Context, q database.Querier) (events.Position, error) {
	return queryEnd(ctx, q, lastSQL)
}

func queryEnd(ctx context.Context, q database.Querier, sql string) (events.Position, error) {
	var end events.Position
	err := q.QueryRow(ctx, sql).Scan(&end.TransactionID, &end.Ordinal)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return events.Position{}, fmt.Errorf("find the end of the log: %w", err)
	}
	return end, nil
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

// chunksAhead is the number of chunks that ReadAhead reads while the receiver works on earlier ones.
const chunksAhead = 2

// ReadAhead calls read for one chunk after another, from a position on, while the receiver still works on earlier ones.
// The channel closes after the first chunk that is not full, when ctx ends, or when reading fails. When the channel is
// closed, call the returned function: it waits for the reader and returns its error.
func ReadAhead(
	ctx context.Context, after events.Position,
	read func(ctx context.Context, after events.Position) (Chunk, error),
) (<-chan Chunk, func() error) {
	// The reader holds one more chunk while it waits to send it.
	chunks, ended := make(chan Chunk, chunksAhead-1), make(chan error, 1)
	go func() {
		defer close(chunks)
		for full := true; full; {
			chunk, err := read(ctx, after)
			if err == nil && chunk.End != after {
				select {
				case chunks <- chunk:
				case <-ctx.Done():
					err = ctx.Err()
				}
			}
			if err != nil {
				ended <- err
				return
			}
			after, full = chunk.End, chunk.Full
		}
		ended <- nil
	}()
	return chunks, func() error { return <-ended }
}
