package eventlog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/events"
	"novelgate/internal/database"
)

// Chunk is a run of settled events as a reader of large parts of the log gets it.
type Chunk struct {
	Identity    Identity            // of the log that ReadAhead has read
	Start, End  events.Position     // it holds what is behind Start, up to and including End
	Read        int                 // events that lie there, those of other kinds of stream included
	Full        bool                // there may be more right behind End
	Events      []events.Recorded   // those of the kinds of stream that were asked for, in log order, without metadata
	Undecodable []*UndecodableError // those of them that cannot be read, in log order
}

// ReadChunk returns a portion of the settled events behind a position, of the named kinds of stream; nil stands for
// all. A chunk that is not full ends with the last settled event.
func ReadChunk(
	ctx context.Context, q database.Querier, after events.Position, portion *Portion, streams []string,
) (Chunk, error) {
	chunk := Chunk{Start: after, End: after}
	if err := chunk.read(ctx, q, portion, streams, readAfterSQL, after.TransactionID, after.Ordinal,
		portion.Ask()); err != nil {
		return Chunk{}, fmt.Errorf("read log after %s: %w", after, err)
	}
	return chunk, nil
}

// readFirstSQL is readAfterSQL with an end. $1, $2: position to start after, $3, $4: position to end with, $5: kinds of
// stream, NULL for all, $6: how many.
const readFirstSQL = `SELECT ` + columnsWithoutMetadata + `
FROM events
WHERE (transaction_id, position) > ($1, $2) AND (transaction_id, position) <= ($3, $4)
    AND ($5::text[] IS NULL OR stream_type = ANY ($5))
ORDER BY transaction_id, position LIMIT $6`

// ReadFirst returns the first portion of a range of the log, of the named kinds of stream; nil stands for all. Others
// are not counted. A chunk that is not full ends with the end of the range. What q does not see, or sees though it has
// not settled, is for the caller to judge.
func ReadFirst(ctx context.Context, q database.Querier, r Range, portion *Portion, streams []string) (Chunk, error) {
	chunk := Chunk{Start: r.After, End: r.After}
	if err := chunk.read(ctx, q, portion, streams, readFirstSQL,
		r.After.TransactionID, r.After.Ordinal, r.UpTo.TransactionID, r.UpTo.Ordinal, streams, portion.Ask()); err != nil {
		return Chunk{}, fmt.Errorf("read log from %s to %s: %w", r.After, r.UpTo, err)
	}
	if !chunk.Full {
		chunk.End = r.UpTo
	}
	return chunk, nil
}

// read reads rows with Columns, of which as many as the portion asks for may be there, up to the one that reaches its
// bytes. Later ones are not decoded.
func (c *Chunk) read(
	ctx context.Context, q database.Querier, portion *Portion, streams []string, sql string, args ...any,
) error {
	asked, bytes := portion.Ask(), 0
	c.Events = make([]events.Recorded, 0, asked)
	for row, err := range Rows(ctx, q, sql, args...) {
		if err != nil {
			return err
		}
		c.Read++
		c.End = row.Position
		if !follows(streams, row.StreamType) {
			continue
		}
		if recorded, err := row.Decode(); err == nil {
			c.Events = append(c.Events, recorded)
		} else {
			var undecodable *UndecodableError
			if !errors.As(err, &undecodable) {
				return err
			}
			c.Undecodable = append(c.Undecodable, undecodable)
		}
		if bytes += row.size(); spent(bytes) {
			break
		}
	}
	c.Full = portion.took(asked, c.Read, bytes)
	return nil
}

// follows reports whether events of a kind of stream are among those that were asked for.
func follows(streams []string, streamType string) bool {
	return streams == nil || slices.Contains(streams, streamType)
}

// readAtSQL reads single events. $1, $2: their positions.
const readAtSQL = `SELECT ` + columnsWithoutMetadata + `
FROM events
WHERE (transaction_id, position) IN (SELECT * FROM unnest($1::xid8[], $2::integer[]))
ORDER BY transaction_id, position`

// ReadAt returns a portion of the events at some positions, which are in the order of the log and not more than the
// portion asks for. The chunk ends with the last event that was read.
func ReadAt(ctx context.Context, q database.Querier, positions []events.Position, portion *Portion) (Chunk, error) {
	transactions, ordinals := make([]pgtype.Uint64, len(positions)), make([]int32, len(positions))
	for i, p := range positions {
		transactions[i], ordinals[i] = pgtype.Uint64{Uint64: p.TransactionID, Valid: true}, p.Ordinal
	}
	var chunk Chunk
	if err := chunk.read(ctx, q, portion, nil, readAtSQL, transactions, ordinals); err != nil {
		return Chunk{}, fmt.Errorf("read %d events: %w", len(positions), err)
	}
	return chunk, nil
}
