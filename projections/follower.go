package projections

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/semaphore"

	"novelgate/events"
	"novelgate/events/eventlog"
)

const (
	// recordAfter is the number of ambiguous errors (see follower.ambiguousErrors) at which one is logged and recorded.
	recordAfter = 3
	// catchUpAfter is the number of consecutive full chunks after which a catch-up starts.
	catchUpAfter = 2
	// minCopied is the minimum number of events whose rows are copied, because a copy takes two more round trips.
	minCopied = 50
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
	extra      *semaphore.Weighted // connections for catch-ups
	slots      *semaphore.Weighted // to apply large chunks
	tail       *eventlog.Tail
	wake       *eventlog.Wake
	logger     *slog.Logger
	patience   int
	begun      func() // called when the checkpoint exists

	position        events.Position   // up to which the log is applied
	identity        eventlog.Identity // of that log
	otherGeneration bool              // the live tables are of another generation, and this is logged
	ambiguousErrors int               // see ambiguousError; since the last success, ErrStandby or ErrBlocked
	fullChunks      int               // consecutive ones
	loader          Loader            // of a Bulk projection; a new one in each turn, which ends at the first failed part
	smallUpTo       events.Position   // end of the chunk at which a catch-up stopped: up to it, apply small batches
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
			chunk, err := f.tail.Read(ctx, f.position, f.identity, f.projection.Streams())
			if err != nil || chunk.Start == chunk.End && len(chunk.Undecodable) == 0 {
				return chunk.Span, err
			}
			if err := deliver(ctx, chunk); err != nil {
				return chunk.Span, err
			}
			progress, f.position = true, chunk.End
			f.catchUpIfFar(ctx, chunk.Full)
			return chunk.Span, nil
		})
		return progress, err
	})
}

// catchUpIfFar runs a catch-up, to its end, after catchUpAfter full chunks, if a connection is free for it.
func (f *follower) catchUpIfFar(ctx context.Context, full bool) {
	if !full {
		f.fullChunks = 0
		return
	}
	f.fullChunks++
	if f.fullChunks >= catchUpAfter && f.position.Compare(f.smallUpTo) >= 0 && f.extra.TryAcquire(1) {
		f.catchUp(ctx)
		f.extra.Release(1)
		f.fullChunks = 0
	}
}

// load begins a turn at the checkpoint. It fails with errGeneration or errStopped, which wrap eventlog.ErrBlocked, if
// the projection must not continue.
func (f *follower) load(ctx context.Context) error {
	c, err := loadCheckpoint(ctx, f.pool, f.projection)
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
	case !c.inLog:
		return f.diverge(ctx, c)
	case c.state != Running:
		return errStopped
	}
	if f.identity != c.identity && f.identity != (eventlog.Identity{}) {
		f.logger.InfoContext(ctx,
			"The database was restarted or is another one; the projection continues from its checkpoint there",
			slog.Any("before", f.identity), slog.Any("now", c.identity), slog.Any("position", c.position))
	}
	f.position, f.identity, f.loader = c.position, c.identity, nil
	f.tail.Forget() // an operator may have repaired an event that is in the cache
	return nil
}

// diverge stops a projection that has applied an event which is not in the log.
func (f *follower) diverge(ctx context.Context, c checkpoint) error {
	cause := fmt.Sprintf("the log does not have event %s, which is the last one that was applied: the log was set back, "+
		"or is another one", c.position)
	tag, err := f.pool.Exec(ctx, divergeSQL, f.projection.Name(), c.position.TransactionID, c.position.Ordinal, cause)
	if err != nil {
		return fmt.Errorf("stop projection: %w", err)
	}
	if tag.RowsAffected() > 0 {
		f.logger.ErrorContext(ctx, "Projection has diverged from the log and stops until its tables are rebuilt",
			slog.String("error", cause))
	}
	return errStopped
}

// handle applies the events of a chunk: by copying rows, if that is possible, otherwise with apply. Then it stops or
// blocks the projection if the next event cannot be decoded.
func (f *follower) handle(ctx context.Context, chunk eventlog.Chunk) error {
	ctx = context.WithoutCancel(ctx) // it completes a transaction that has begun, even if the subscriber closes
	if len(chunk.Events) >= minSlot {
		defer f.takeSlot(ctx)()
	}
	p := part{identity: chunk.Identity, start: chunk.Start, end: chunk.End, events: chunk.Events}
	at := p.start // up to where the log is applied
	copied, err := f.copyRows(ctx, p)
	switch {
	case copied:
		at = p.end
	case err == nil:
		at, err = f.apply(ctx, p)
	}
	if err == nil && len(chunk.Undecodable) > 0 {
		err = f.refuse(ctx, chunk.Identity, at, chunk.Undecodable[0])
	}
	f.countAmbiguous(ctx, at, err)
	return err
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

// copyRows applies a part of a Bulk projection by copying rows, which costs less than applying events. If it returns
// false and no error, apply must apply the part: the projection is no Bulk, the part is too small, a catch-up stopped
// in it, or an event may be at fault, which apply finds.
func (f *follower) copyRows(ctx context.Context, p part) (done bool, err error) {
	bulk, ok := f.projection.(Bulk)
	if !ok || len(p.events) < minCopied || p.start.Compare(f.smallUpTo) < 0 {
		return false, nil
	}
	if f.loader == nil {
		f.loader = bulk.NewLoader()
	}
	rows, rest, err := loadRows(f.loader, p.events)
	if err != nil {
		return false, nil //nolint:nilerr // apply finds the event at fault
	}
	p.events, p.rows = rest, rows
	err = commitPart(ctx, f.pool, f.projection, p)
	if isPoison(err) || isAmbiguous(err) {
		return false, nil
	}
	return err == nil, err
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
	if _, err := f.pool.Exec(ctx, recordRetrySQL, f.projection.Name(), at.TransactionID, at.Ordinal,
		eventlog.ErrorText(err)); err != nil {
		f.logger.WarnContext(ctx, "The error of the projection could not be recorded", slog.Any("error", err))
	}
}

// apply applies a part and returns the position up to which it succeeded. If events are to blame for a failure, it
// applies one half of the part and then the other, and so on down to the event at fault, where it stops the projection.
// It blames events for an ambiguous error only after f.patience of them.
func (f *follower) apply(ctx context.Context, p part) (events.Position, error) {
	if p.start == p.end {
		return p.start, nil
	}
	err := commitPart(ctx, f.pool, f.projection, p)
	switch {
	case err == nil:
		return p.end, nil
	case len(p.events) == 0:
		return p.start, err
	case !isPoison(err) && (!isAmbiguous(err) || f.ambiguousErrors < f.patience):
		return p.start, err
	case len(p.events) == 1:
		return p.start, f.stop(ctx, p.identity, p.start, p.events[0].Position, err)
	}
	half := len(p.events) / 2
	first, second := p, p
	first.events, first.end = p.events[:half], p.events[half-1].Position
	middle, err := f.apply(ctx, first)
	if err != nil {
		return middle, err
	}
	second.events, second.start = p.events[half:], middle
	return f.apply(ctx, second)
}

// refuse handles an event that cannot be decoded. If its type is unknown, the projection waits for a newer replica.
func (f *follower) refuse(
	ctx context.Context, log eventlog.Identity, start events.Position, undecodable *eventlog.UndecodableError,
) error {
	if !errors.Is(undecodable, events.ErrUnknownType) {
		return f.stop(ctx, log, start, undecodable.Recorded.Position, undecodable)
	}
	tag, err := f.pool.Exec(ctx, recordUnknownSQL, f.projection.Name(), start.TransactionID, start.Ordinal,
		undecodable.Type, f.projection.Generation())
	if err != nil {
		return fmt.Errorf("record unknown event type: %w", err)
	}
	if tag.RowsAffected() > 0 {
		f.logger.WarnContext(ctx, "Projection waits for a replica that knows the next event",
			slog.Any("error", undecodable))
	}
	return fmt.Errorf("%w: %w", eventlog.ErrBlocked, undecodable)
}

// stop records that the projection, with its checkpoint at start, cannot apply the event at a position.
func (f *follower) stop(ctx context.Context, log eventlog.Identity, start, at events.Position, cause error) error {
	tag, err := f.pool.Exec(ctx, failSQL, f.projection.Name(), start.TransactionID, start.Ordinal, at.TransactionID,
		at.Ordinal, eventlog.ErrorText(cause), f.projection.Generation(), log.String())
	if err != nil {
		return fmt.Errorf("stop projection: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return errOtherReplica
	}
	f.logger.ErrorContext(ctx, "Projection has failed and stops; the others continue", slog.Any("error", cause))
	return errStopped
}
