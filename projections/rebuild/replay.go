package rebuild

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/projections"
)

// PoisonError is the error of an event that the projection cannot apply.
type PoisonError struct {
	LogIndex int64
	Delivery projections.Delivery
	err      error
}

func (e *PoisonError) Error() string {
	return fmt.Sprintf("event %d (id %q of %s) cannot be applied: %v", e.LogIndex, e.Delivery.ID, e.Delivery.Source, e.err)
}

func (e *PoisonError) Unwrap() error { return e.err }

func poison(event *events.Recorded, err error) *PoisonError {
	return &PoisonError{event.LogIndex, projections.DeliveryOf(event), err}
}

// endOfLog is after every event.
const endOfLog events.Position = math.MaxInt64

// replay applies the events that the new tables lack, up to a position or the end of the log; none if the tables are
// beyond it. It leaves out skipped events. It fails with ErrTakenOver, or with a PoisonError when an event cannot be
// applied.
func (r *rebuild) replay(ctx context.Context, upTo events.Position) error {
	if err := r.loadSkipped(ctx); err != nil {
		return err
	}
	for limit := r.ChunkSize; ; {
		r.fetch.SetMax(limit)
		begun := r.now()
		chunk, err := r.writeChunk(ctx, upTo)
		if err != nil {
			if chunk.Read > 1 && blamesEvent(err) { // find the event
				limit = chunk.Read / 2
			} else if err := r.forgive(ctx, &chunk, err); err != nil {
				return err
			}
			continue
		}
		limit = min(2*limit, r.ChunkSize)
		r.record.position = chunk.End.Position
		r.read += chunk.Read
		r.report()
		if !chunk.Full {
			return ctx.Err()
		}
		if err := r.pace(ctx, chunk.Read, r.now().Sub(begun)); err != nil {
			return err
		}
	}
}

// blamesEvent reports whether an event, which is not known yet, may be the cause of an error.
func blamesEvent(err error) bool {
	_, known := errors.AsType[*PoisonError](err)
	return !known && eventlog.BlamesData(err) && !errors.Is(err, ErrTakenOver) && !errors.Is(err, errInterrupted)
}

// forgive returns the error of a chunk, or nil if staff have skipped the event at fault meanwhile.
func (r *rebuild) forgive(ctx context.Context, chunk *eventlog.Chunk, err error) error {
	found, poisoned := errors.AsType[*PoisonError](err)
	if !poisoned && blamesEvent(err) && len(chunk.Events) == 1 {
		found, poisoned = poison(&chunk.Events[0], err), true
	}
	if !poisoned {
		return err
	}
	if loadErr := r.loadSkipped(ctx); loadErr != nil {
		return errors.Join(found, loadErr)
	}
	if r.skipped[found.Delivery] {
		return nil
	}
	return found
}

// writeChunk applies the next events in one transaction, which also reads them: so they are in the log of the database
// that it writes to. Of a chunk with an undecodable event it applies those before it.
func (r *rebuild) writeChunk(ctx context.Context, upTo events.Position) (chunk eventlog.Chunk, err error) {
	err = pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		if err := r.setSearchPath(ctx, tx); err != nil {
			return err
		}
		position, err := r.lockRecord(ctx, tx)
		if err != nil {
			return err
		}
		if chunk, err = eventlog.ReadChunk(ctx, tx, eventlog.Mark{Position: position}, r.fetch,
			r.Projection.Streams()); err != nil {
			return err
		}
		cut(&chunk, max(upTo, position))
		r.removeSkipped(&chunk)
		if len(chunk.Undecodable) > 0 {
			first := chunk.Undecodable[0]
			if first.Recorded.LogIndex == int64(chunk.Start) {
				return poison(&first.Recorded, first)
			}
			cut(&chunk, events.Position(first.Recorded.LogIndex))
			chunk.Full = true // the undecodable event follows
		}
		return r.write(ctx, tx, &chunk)
	})
	return chunk, err
}

// write applies a chunk and records its end.
func (r *rebuild) write(ctx context.Context, tx pgx.Tx, chunk *eventlog.Chunk) error {
	var writes pgx.Batch
	if err := projections.Apply(ctx, r.Projection, &writes, chunk.Events); err != nil {
		return err
	}
	r.queueSave(&writes, chunk.End.Position)
	if err := tx.SendBatch(ctx, &writes).Close(); err != nil {
		return fmt.Errorf("apply %d events: %w", len(chunk.Events), err)
	}
	return nil
}

// cut removes the events from a position on.
func cut(chunk *eventlog.Chunk, upTo events.Position) {
	if chunk.End.Position < upTo {
		return
	}
	from := slices.IndexFunc(chunk.Events, func(e events.Recorded) bool { return e.LogIndex >= int64(upTo) })
	if from >= 0 {
		chunk.Events = chunk.Events[:from]
	}
	chunk.Undecodable = slices.DeleteFunc(chunk.Undecodable,
		func(u *eventlog.UndecodableError) bool { return u.Recorded.LogIndex >= int64(upTo) })
	chunk.End, chunk.Full = eventlog.Mark{Position: upTo}, false
	chunk.Read = int(upTo - chunk.Start)
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

// setSearchPath makes names without a schema mean the new tables until the end of a transaction.
func (r *rebuild) setSearchPath(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, `SELECT set_config('search_path', $1, true)`,
		pgx.Identifier{r.Schema()}.Sanitize()+", public"); err != nil {
		return fmt.Errorf("set search_path: %w", err)
	}
	return nil
}

// Throttling. A rebuild at full speed takes all available processor time; requests of clients come first.
const (
	busyAppends = 100 // clients count as active if the log grows by this many events a second
	slowdown    = 3   // duration of a throttled rebuild, with pauses, divided by the duration of its work
	maxGrowth   = 0.8 // no pause if the log grows faster than this share of the throttled speed
)

func (r *rebuild) now() time.Time {
	if r.Now == nil {
		return time.Time{}
	}
	return r.Now()
}

// pace pauses after a chunk while clients append, for twice the time that the chunk took, as long as the rebuild still
// gains on the log.
func (r *rebuild) pace(ctx context.Context, read int, took time.Duration) error {
	if r.Now == nil || took <= 0 {
		return nil
	}
	end, err := eventlog.End(ctx, r.pool)
	if err != nil {
		return err
	}
	growth := float64(end.Position-r.paceEnd) / took.Seconds() // events a second
	isFirst := r.paceEnd == 0
	r.paceEnd = end.Position
	if !isFirst && growth >= busyAppends && growth < maxGrowth*float64(read)/(slowdown*took.Seconds()) {
		eventlog.Sleep(ctx, (slowdown-1)*took) // ctx may end first; the caller checks it
		if end, err = eventlog.End(ctx, r.pool); err == nil {
			r.paceEnd = end.Position
		}
	}
	return err
}
