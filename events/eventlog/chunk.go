package eventlog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/events"
)

// Chunk is a run of settled events as a reader of large parts of the log gets it.
type Chunk struct {
	Start, End  events.Position     // it holds what is behind Start, up to and including End
	Read        int                 // events that lie there, those of other kinds of stream included
	Events      []events.Recorded   // those of the kinds of stream that were asked for, in log order, without metadata
	Undecodable []*UndecodableError // those of them that cannot be read, in log order
}

// readRangeSQL is readAfterSQL with an end that is known to be settled. $1, $2: position to start after, $3, $4: position to
// end with, $5: kinds of stream, NULL for all.
const readRangeSQL = `SELECT ` + columns + `
FROM events
WHERE (transaction_id, position) > ($1, $2) AND (transaction_id, position) <= ($3, $4) AND ($5::text[] IS NULL OR stream_type = ANY ($5))
ORDER BY transaction_id, position`

// ReadChunk returns up to limit settled events behind a position, of the named kinds of stream; nil stands for all. A
// chunk of less than limit ends with the last settled event.
func ReadChunk(ctx context.Context, q Querier, after events.Position, limit int, streams []string) (Chunk, error) {
	rows, err := q.Query(ctx, readAfterSQL, after.TransactionID, after.Ordinal, limit)
	if err != nil {
		return Chunk{}, fmt.Errorf("read log after %s: %w", after, err)
	}
	chunk := Chunk{Start: after, End: after}
	if err := chunk.collect(rows, limit, streams); err != nil {
		return Chunk{}, fmt.Errorf("read log after %s: %w", after, err)
	}
	return chunk, nil
}

// ReadRange returns the events of a range of the log, of the named kinds of stream; nil stands for all. The end of the range
// must be settled.
func ReadRange(ctx context.Context, q Querier, r Range, streams []string) (Chunk, error) {
	rows, err := q.Query(ctx, readRangeSQL, r.After.TransactionID, r.After.Ordinal, r.UpTo.TransactionID, r.UpTo.Ordinal, streams)
	if err != nil {
		return Chunk{}, fmt.Errorf("read log from %s to %s: %w", r.After, r.UpTo, err)
	}
	chunk := Chunk{Start: r.After}
	if err := chunk.collect(rows, r.Count, streams); err != nil {
		return Chunk{}, fmt.Errorf("read log from %s to %s: %w", r.After, r.UpTo, err)
	}
	chunk.End, chunk.Read = r.UpTo, r.Count
	return chunk, nil
}

// readFirstSQL is readRangeSQL for the first events of a range. $6: how many.
const readFirstSQL = readRangeSQL + ` LIMIT $6`

// ReadFirst returns the first limit events of a range of the log, of the named kinds of stream; nil stands for all. Others are not
// counted. A chunk that ends with the end of the range has less than limit. What q does not see, or sees though it has not settled,
// is for the caller to judge.
func ReadFirst(ctx context.Context, q Querier, r Range, limit int, streams []string) (Chunk, error) {
	rows, err := q.Query(ctx, readFirstSQL, r.After.TransactionID, r.After.Ordinal, r.UpTo.TransactionID, r.UpTo.Ordinal, streams, limit)
	if err != nil {
		return Chunk{}, fmt.Errorf("read log after %s: %w", r.After, err)
	}
	chunk := Chunk{Start: r.After, End: r.After}
	if err := chunk.collect(rows, limit, streams); err != nil {
		return Chunk{}, fmt.Errorf("read log after %s: %w", r.After, err)
	}
	if chunk.Read < limit {
		chunk.End = r.UpTo
	}
	return chunk, nil
}

// collect reads all rows of columns, of which there are not many more than most.
func (c *Chunk) collect(rows pgx.Rows, most int, streams []string) error {
	defer rows.Close()
	scanner := newScanner().withoutCopies()
	scanner.streams = streams
	c.Events = make([]events.Recorded, 0, most)
	for rows.Next() {
		recorded, err := scanner.scan(rows)
		var undecodable *UndecodableError
		switch {
		case errors.As(err, &undecodable):
			recorded = undecodable.Recorded
			c.Undecodable = append(c.Undecodable, undecodable)
		case err != nil:
			return err
		case recorded.Event != nil:
			c.Events = append(c.Events, recorded)
		}
		c.Read++
		c.End = recorded.Position
	}
	return rows.Err()
}

// follows reports whether events of a kind of stream are among those that were asked for.
func follows(streams []string, streamType string) bool {
	return streams == nil || slices.Contains(streams, streamType)
}

// readAtSQL reads single events. $1, $2: their positions.
const readAtSQL = `SELECT ` + columns + `
FROM events
WHERE (transaction_id, position) IN (SELECT * FROM unnest($1::xid8[], $2::integer[]))
ORDER BY transaction_id, position`

// ReadAt returns the events at some positions, which are in the order of the log.
func ReadAt(ctx context.Context, q Querier, positions []events.Position) (Chunk, error) {
	transactions, ordinals := make([]pgtype.Uint64, len(positions)), make([]int32, len(positions))
	for i, p := range positions {
		transactions[i], ordinals[i] = pgtype.Uint64{Uint64: p.TransactionID, Valid: true}, p.Ordinal
	}
	rows, err := q.Query(ctx, readAtSQL, transactions, ordinals)
	if err != nil {
		return Chunk{}, fmt.Errorf("read %d events: %w", len(positions), err)
	}
	var chunk Chunk
	if err := chunk.collect(rows, len(positions), nil); err != nil {
		return Chunk{}, fmt.Errorf("read %d events: %w", len(positions), err)
	}
	return chunk, nil
}
