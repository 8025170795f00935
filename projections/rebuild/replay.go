package rebuild

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/projections"
)

// PoisonError is the error of an event that the projection cannot apply.
type PoisonError struct {
	Position events.Position
	Delivery projections.Delivery
	err      error
}

func (e *PoisonError) Error() string {
	return fmt.Sprintf("event %s (id %q of %s) cannot be applied: %v", e.Position, e.Delivery.ID, e.Delivery.Source, e.err)
}

func (e *PoisonError) Unwrap() error { return e.err }

func poison(event *events.Recorded, err error) *PoisonError {
	return &PoisonError{event.Position, projections.DeliveryOf(event), err}
}

// blamesEvent reports whether an event may be the cause of an error.
func blamesEvent(err error) bool {
	return eventlog.BlamesData(err) && !errors.Is(err, ErrTakenOver) && !errors.Is(err, eventlog.ErrOtherLog)
}

// chunkReader reads the next chunk of events after a position.
type chunkReader func(ctx context.Context, after events.Position) (eventlog.Chunk, error)

// endOfLog is after every event.
var endOfLog = events.Position{TransactionID: math.MaxUint64, Ordinal: math.MaxInt32}

// replayLog applies the settled events that the new tables lack, until a chunk is not full or reaches upTo.
func (r *rebuild) replayLog(ctx context.Context, upTo events.Position) error {
	fetch := eventlog.NewFetchSize(r.ChunkSize)
	return r.replay(ctx, func(ctx context.Context, after events.Position) (eventlog.Chunk, error) {
		chunk, err := eventlog.ReadChunk(ctx, r.pool, after, fetch, r.Projection.Streams())
		chunk.Full = chunk.Full && chunk.End.Compare(upTo) < 0
		return chunk, err
	})
}

// replay applies the chunks that read returns, from the position of the new tables on, until one is not full. It leaves
// out skipped events. It fails with ErrTakenOver, or with a PoisonError when an event cannot be applied.
func (r *rebuild) replay(ctx context.Context, read chunkReader) error {
	c := &projections.CatchUp{
		Pool: r.pool, Projection: r.Projection, Target: r, Writers: r.Workers, Pace: r.throttle, Sequential: r.busy,
		Done: func(chunk *eventlog.Chunk) {
			r.record.position = chunk.End
			r.advance(chunk.Read)
		},
	}
	if r.record.phase == Loading {
		c.Defer = r.deferEvents
	}
	for {
		if err := r.loadSkipped(ctx); err != nil {
			return err
		}
		err := r.catchUp(ctx, c, read)
		if _, stopped := errors.AsType[*projections.ChunkError](err); !stopped || !blamesEvent(err) {
			return err
		}
		if err := r.writeParts(ctx, c, read); err != nil {
			return err
		}
	}
}

const (
	deferSQL = `INSERT INTO projection_rebuild_rest (name, transaction_id, position)
SELECT $1, e.transaction_id, e.position FROM unnest($2::xid8[], $3::integer[]) AS e (transaction_id, position)`

	// $2, $3: position to start after, $4: maximum number.
	deferredSQL = `SELECT transaction_id, position FROM projection_rebuild_rest
WHERE name = $1 AND (transaction_id, position) > ($2, $3) ORDER BY transaction_id, position LIMIT $4`
)

// deferEvents queues a statement that stores the positions of events that need indexes.
func (r *rebuild) deferEvents(batch *pgx.Batch, rest []events.Recorded) {
	transactions, ordinals := make([]pgtype.Uint64, len(rest)), make([]int32, len(rest))
	for i := range rest {
		transactions[i] = pgtype.Uint64{Uint64: rest[i].Position.TransactionID, Valid: true}
		ordinals[i] = rest[i].Position.Ordinal
	}
	if len(rest) > 0 {
		batch.Queue(deferSQL, r.Projection.Name(), transactions, ordinals)
	}
}

// deferredEvents returns the reader of the deferred events. Its chunks have Read = 0, because the events were counted
// when they were deferred.
func (r *rebuild) deferredEvents() chunkReader {
	fetch := eventlog.NewFetchSize(r.ChunkSize)
	return func(ctx context.Context, after events.Position) (eventlog.Chunk, error) {
		// CollectRows returns its error
		rows, _ := r.pool.Query(ctx, deferredSQL, r.Projection.Name(), after.TransactionID, after.Ordinal, fetch.Limit())
		positions, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p events.Position, err error) {
			return p, row.Scan(&p.TransactionID, &p.Ordinal)
		})
		if err != nil {
			return eventlog.Chunk{}, fmt.Errorf("read what was deferred: %w", err)
		}
		if len(positions) == 0 {
			return eventlog.Chunk{Span: eventlog.Span{Start: after, End: after}}, nil
		}
		chunk, err := eventlog.ReadAt(ctx, r.pool, positions, fetch)
		chunk.Start, chunk.Read, chunk.Full = after, 0, true
		return chunk, err
	}
}

// catchUp reads and writes chunks.
func (r *rebuild) catchUp(ctx context.Context, c *projections.CatchUp, read chunkReader) error {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	chunks, readEnded := eventlog.ReadAhead(reading, r.record.position,
		func(_ context.Context, after events.Position) (eventlog.Chunk, error) {
			// Not with the context of ReadAhead: its end would interrupt the query, and pgx would close the connection.
			chunk, err := read(ctx, after)
			r.removeSkipped(&chunk)
			return chunk, err
		})
	err := c.Run(ctx, chunks)
	stop()
	if readErr := readEnded(); err == nil {
		err = cmp.Or(readErr, ctx.Err())
	}
	return err
}

// writeParts reads a failed chunk again and writes it in parts, up to the first event that cannot be applied. It
// returns the PoisonError of this event, or nil if the chunk is written or staff have skipped the event meanwhile.
func (r *rebuild) writeParts(ctx context.Context, c *projections.CatchUp, read chunkReader) error {
	chunk, err := read(ctx, r.record.position)
	if err != nil {
		return err
	}
	r.removeSkipped(&chunk)
	unreadable := endBeforeUndecodable(&chunk)
	if chunk.End != chunk.Start {
		err = writeHalves(ctx, c, chunk)
	}
	if err == nil && unreadable != nil {
		err = unreadable
	}
	found, ok := errors.AsType[*PoisonError](err)
	if !ok {
		return err
	}
	if loadErr := r.loadSkipped(ctx); loadErr != nil {
		return errors.Join(err, loadErr)
	}
	if r.skipped[found.Delivery] {
		return nil
	}
	return err
}

// endBeforeUndecodable shortens a chunk to the events before its first undecodable event. It returns the PoisonError of
// this event, or nil if the chunk has none.
func endBeforeUndecodable(chunk *eventlog.Chunk) *PoisonError {
	if len(chunk.Undecodable) == 0 {
		return nil
	}
	first := chunk.Undecodable[0]
	behind := slices.IndexFunc(chunk.Events,
		func(e events.Recorded) bool { return e.Position.Compare(first.Recorded.Position) > 0 })
	if behind >= 0 {
		chunk.Events = chunk.Events[:behind]
	}
	chunk.Read, chunk.End = min(chunk.Read, len(chunk.Events)), chunk.Start // Read is 0 for deferred events
	if n := len(chunk.Events); n > 0 {
		chunk.End = chunk.Events[n-1].Position
	}
	return poison(&first.Recorded, first)
}

// writeHalves writes a chunk. If this fails it writes one half after the other, down to a single event.
func writeHalves(ctx context.Context, c *projections.CatchUp, chunk eventlog.Chunk) error {
	err := c.Write(ctx, &chunk)
	if err == nil || len(chunk.Events) == 0 || !blamesEvent(err) {
		return err
	}
	if len(chunk.Events) == 1 {
		return poison(&chunk.Events[0], err)
	}
	half := len(chunk.Events) / 2
	first, second := chunk, chunk
	first.Events, second.Events = chunk.Events[:half], chunk.Events[half:]
	first.Read = min(half, chunk.Read)
	second.Read = chunk.Read - first.Read
	first.End = chunk.Events[half-1].Position
	second.Start = first.End
	if err := writeHalves(ctx, c, first); err != nil {
		return err
	}
	return writeHalves(ctx, c, second)
}

// removeSkipped removes skipped events from a chunk.
func (r *rebuild) removeSkipped(chunk *eventlog.Chunk) {
	if len(r.skipped) == 0 {
		return
	}
	chunk.Events = slices.DeleteFunc(chunk.Events,
		func(e events.Recorded) bool { return r.skipped[projections.DeliveryOf(&e)] })
	chunk.Undecodable = slices.DeleteFunc(chunk.Undecodable,
		func(u *eventlog.UndecodableError) bool { return r.skipped[projections.DeliveryOf(&u.Recorded)] })
}

func (r *rebuild) loadSkipped(ctx context.Context) (err error) {
	r.skipped, err = projections.Skipped(ctx, r.pool, r.Projection.Name())
	return err
}

const searchPathSQL = `SELECT set_config('search_path', $1, true)`

// searchPath selects the new tables for names without a schema.
func (r *rebuild) searchPath() string { return pgx.Identifier{r.Schema()}.Sanitize() + ", public" }

// Begin implements projections.Target.
func (r *rebuild) Begin(batch *pgx.Batch) { batch.Queue(searchPathSQL, r.searchPath()) }

// Only the process that the record names as builder may write. $3, $4: position.
const lockRecordSQL = `SELECT FROM projection_rebuilds
WHERE name = $1 AND builder = $2 AND (transaction_id, position) = ($3, $4) FOR NO KEY UPDATE`

// Lock implements projections.Target. A comparison needs no lock, because only this process writes its tables.
func (r *rebuild) Lock(ctx context.Context, conn *pgxpool.Conn, chunk *eventlog.Chunk) error {
	if r.compareSchema != "" {
		return nil
	}
	tag, err := conn.Exec(ctx, lockRecordSQL, r.Projection.Name(), r.builder, chunk.Start.TransactionID,
		chunk.Start.Ordinal)
	if err != nil {
		return fmt.Errorf("lock record: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return ErrTakenOver
	}
	return nil
}

// Save implements projections.Target. A comparison has no record.
func (r *rebuild) Save(batch *pgx.Batch, chunk *eventlog.Chunk) {
	if r.compareSchema == "" {
		batch.Queue(saveSQL, r.Projection.Name(), chunk.End.TransactionID, chunk.End.Ordinal, chunk.Read)
	}
}

// setSearchPath makes names without a schema mean the new tables until the end of a transaction.
func (r *rebuild) setSearchPath(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, searchPathSQL, r.searchPath()); err != nil {
		return fmt.Errorf("set search_path: %w", err)
	}
	return nil
}
