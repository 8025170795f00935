package projections

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/tracing"
)

const (
	// recordAfter is the number of ambiguous errors (see follower.ambiguousErrors) at which one is logged and recorded.
	recordAfter = 3
	// minSlot is the minimum number of events of a chunk that waits for a slot.
	minSlot = 50
	// maxSlotWait limits this wait, because projections that have the slots may wait long for locks.
	maxSlotWait = 250 * time.Millisecond
	// defaultPatience is the number of ambiguous errors before an event is blamed: a quarter of an hour.
	defaultPatience = 200
)

// follower keeps one projection up to date. One goroutine reads the log in turns (see eventlog.Follow) and delivers
// chunks to the message router. It waits while a goroutine of the router runs handle, so the two never run at once.
type follower struct {
	projection Projection
	pool       *pgxpool.Pool
	slots      *semaphore.Weighted // to apply large chunks
	tail       *eventlog.Tail
	wake       *eventlog.Wake
	logger     *slog.Logger
	patience   int
	tracer     trace.Tracer // nil: no spans
	begun      func()       // called when the checkpoint exists

	mark            eventlog.Mark // up to which the log is applied
	otherGeneration bool          // the live tables are of another generation, and this is logged
	ambiguousErrors int           // see ambiguousError; since the last success, ErrStandby or ErrBlocked
}

// run follows the log until ctx ends. It passes chunks to deliver, which calls handle.
func (f *follower) run(ctx context.Context, deliver func(context.Context, eventlog.Chunk) error) {
	follow := eventlog.Follow{
		Wake: f.wake, Logger: f.logger,
		Position: func(ctx context.Context) (events.Position, error) {
			c, err := loadCheckpoint(ctx, f.pool, f.projection)
			return c.position, err
		},
	}
	follow.Run(ctx, func(ctx context.Context) (progress bool, err error) {
		if err := f.load(ctx); err != nil {
			return false, err
		}
		err = follow.Each(ctx, func(ctx context.Context) (eventlog.Span, error) {
			chunk, err := f.tail.Read(ctx, f.mark, f.projection.Streams())
			if err != nil || chunk.Start == chunk.End.Position && len(chunk.Undecodable) == 0 {
				return chunk.Span, err
			}
			if err := deliver(ctx, chunk); err != nil {
				return chunk.Span, err
			}
			progress, f.mark = true, chunk.End
			return chunk.Span, nil
		})
		return progress, err
	})
}

// load begins a turn at the checkpoint. It fails with errGeneration, errStopped or ErrOff, which wrap
// eventlog.ErrBlocked, if the projection must not continue.
func (f *follower) load(ctx context.Context) error {
	c, err := loadCheckpoint(ctx, f.pool, f.projection)
	if errors.Is(err, ErrOff) {
		f.begun()
	}
	if err != nil {
		return err
	}
	f.begun()
	logged := f.otherGeneration
	f.otherGeneration = c.generation != f.projection.Generation()
	switch {
	case f.otherGeneration:
		if !logged {
			f.logger.InfoContext(ctx, "The live tables are of another generation than this program; not writing them")
		}
		return errGeneration
	case c.state != Running:
		return errStopped
	}
	f.mark = eventlog.Mark{Position: c.position}
	f.tail.Forget() // an operator may have repaired an event that is in the cache
	return nil
}

// handle applies the events of a chunk. Then it stops or blocks the projection if the next event cannot be decoded.
func (f *follower) handle(ctx context.Context, chunk eventlog.Chunk) error {
	ctx = context.WithoutCancel(ctx) // it completes a transaction that has begun, even if the subscriber closes
	if f.tracer != nil && len(chunk.Events) > 0 {
		var span trace.Span
		ctx, span = f.startSpan(ctx, chunk.Events)
		defer span.End()
	}
	if len(chunk.Events) >= minSlot {
		defer f.takeSlot(ctx)()
	}
	at, err := f.apply(ctx, part{start: chunk.Start, end: chunk.End, events: chunk.Events})
	if err == nil && len(chunk.Undecodable) > 0 {
		err = f.refuse(ctx, at, chunk.Undecodable[0])
	}
	f.countAmbiguous(ctx, at, err)
	return err
}

// startSpan starts the span of a chunk.
func (f *follower) startSpan(ctx context.Context, recorded []events.Recorded) (context.Context, trace.Span) {
	requests := make([]trace.SpanContext, len(recorded))
	for i := range recorded {
		requests[i] = tracing.Parse(recorded[i].Metadata.TraceParent)
	}
	return tracing.StartBatch(ctx, f.tracer, "apply batch", requests, attribute.Int("novelgate.events", len(recorded)),
		attribute.String("novelgate.projection", f.projection.Name()))
}

// takeSlot waits for a slot, at most maxSlotWait, and returns the function that releases it. All projections read at
// about the same time. The slots limit how many of them apply large chunks at a time, so that the commands keep
// processors.
func (f *follower) takeSlot(ctx context.Context) (release func()) {
	ctx, cancel := context.WithTimeout(ctx, maxSlotWait)
	defer cancel()
	if f.slots.Acquire(ctx, 1) != nil {
		return func() {}
	}
	return func() { f.slots.Release(1) }
}

// countAmbiguous counts ambiguous errors. A success, ErrStandby and ErrBlocked reset the count; other errors leave it.
// The error with number recordAfter is logged, and recorded for `novelgate projection list`.
func (f *follower) countAmbiguous(ctx context.Context, at events.Position, err error) {
	if !isAmbiguous(err) {
		if err == nil || errors.Is(err, eventlog.ErrStandby) || errors.Is(err, eventlog.ErrBlocked) {
			f.ambiguousErrors = 0
		}
		return
	}
	if f.ambiguousErrors++; f.ambiguousErrors != recordAfter {
		return
	}
	f.logger.ErrorContext(ctx, "Projection retries after an error of unknown cause", slog.Any("error", err))
	if _, err := f.pool.Exec(ctx, recordRetrySQL, f.projection.Name(), at,
		eventlog.ErrorText(err)); err != nil {
		f.logger.WarnContext(ctx, "The error of the projection could not be recorded", slog.Any("error", err))
	}
}

// apply applies a part and returns the position up to which it succeeded. If events are to blame for a failure, it
// applies one half of the part and then the other, and so on down to the event at fault, where it stops the projection.
// It blames events for an ambiguous error only after f.patience of them.
func (f *follower) apply(ctx context.Context, p part) (events.Position, error) {
	if p.start == p.end.Position {
		return p.start, nil
	}
	err := commitPart(ctx, f.pool, f.projection, p)
	switch {
	case err == nil:
		return p.end.Position, nil
	case len(p.events) == 0:
		return p.start, err
	case !isPoison(err) && (!isAmbiguous(err) || f.ambiguousErrors < f.patience):
		return p.start, err
	case len(p.events) == 1:
		return p.start, f.stop(ctx, p.start, &p.events[0], err)
	}
	half := len(p.events) / 2
	first, second := p, p
	first.events, first.end = p.events[:half], eventlog.MarkAfter(&p.events[half-1])
	middle, err := f.apply(ctx, first)
	if err != nil {
		return middle, err
	}
	second.events, second.start = p.events[half:], middle
	return f.apply(ctx, second)
}

// refuse handles an event that cannot be decoded. If its type is unknown, the projection waits for a newer replica.
func (f *follower) refuse(
	ctx context.Context, start events.Position, undecodable *eventlog.UndecodableError,
) error {
	if !errors.Is(undecodable, events.ErrUnknownType) {
		return f.stop(ctx, start, &undecodable.Recorded, undecodable)
	}
	tag, err := f.pool.Exec(ctx, recordUnknownSQL, f.projection.Name(), start, undecodable.Type,
		f.projection.Generation())
	if err != nil {
		return fmt.Errorf("record unknown event type: %w", err)
	}
	if tag.RowsAffected() > 0 {
		f.logger.WarnContext(ctx, "Projection waits for a replica that knows the next event",
			slog.Any("error", undecodable))
	}
	return fmt.Errorf("%w: %w", eventlog.ErrBlocked, undecodable)
}

// stop records that the projection, with its checkpoint at start, cannot apply an event.
func (f *follower) stop(ctx context.Context, start events.Position, at *events.Recorded, cause error) error {
	tag, err := f.pool.Exec(ctx, failSQL, f.projection.Name(), start, at.LogIndex, eventlog.ErrorText(cause),
		f.projection.Generation(), at.Metadata.Batch)
	if err != nil {
		return fmt.Errorf("stop projection: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return errOtherReplica
	}
	f.logger.ErrorContext(ctx, "Projection has failed and stops; the others continue", slog.Any("error", cause))
	return errStopped
}
