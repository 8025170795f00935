package projections

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
)

// mode is how a replica takes part in a projection.
type mode int

const (
	active   mode = iota // applies whatever comes
	standby              // another replica applies; looks after the checkpoint and steps in when it stands still
	retrying             // the database was in the way
	waiting              // the next event is of a type that only a newer replica knows
	stopped              // the projection has failed
	outdated             // the live tables are those of other code
)

// How long a replica that is not active waits before it looks at the checkpoint again.
const (
	standbyWait  = 250 * time.Millisecond
	firstRetry   = 50 * time.Millisecond // doubling up to
	lastRetry    = 5 * time.Second
	unknownWait  = 3 * time.Second
	stoppedWait  = time.Second
	outdatedWait = time.Second
	transientLog = 3 // failures in a row before one is logged as a warning, and goes on record if it may be an event's

	defaultPatience = 200 // failures in a row that may be an event's before one is blamed: a quarter of an hour
)

// follower keeps one projection up to date. handle and before are called in turn, by different goroutines.
type follower struct {
	projection   Projection
	pool         *pgxpool.Pool
	logger       *slog.Logger
	subscription *eventlog.Subscription
	patience     int
	identity     eventlog.Identity // of the log beside the checkpoint as it was last loaded
	doubts       int               // failures in a row that may be an event's

	mu       sync.Mutex
	mode     mode
	behind   bool            // the latest batch was full, and applied
	trouble  events.Position // end of the chunk that could not be applied as a whole: up to it, batch by batch
	reported mode            // the latest that was logged
	failures int             // in a row
}

// start finds out where the projection stands.
func (f *follower) start(ctx context.Context) error {
	c, err := loadCheckpoint(ctx, f.pool, f.projection)
	if err != nil {
		return fmt.Errorf("start projection %s: %w", f.projection.Name(), err)
	}
	f.seek(ctx, c)
	if !c.inLog {
		return f.diverge(ctx, c)
	}
	return nil
}

// diverge stops a projection that has applied an event which the log does not have.
func (f *follower) diverge(ctx context.Context, c checkpoint) error {
	if c.state == Diverged || c.generation != f.projection.Generation() {
		return nil
	}
	cause := fmt.Sprintf("the log does not have event %s, which is the last one that was applied: the log was set back, "+
		"or is another one", c.position)
	tag, err := f.pool.Exec(ctx, divergeSQL, f.projection.Name(), c.position.TransactionID, c.position.Ordinal, cause)
	if err != nil {
		return fmt.Errorf("stop projection: %w", err)
	}
	if tag.RowsAffected() > 0 {
		f.logger.ErrorContext(ctx, "Projection has diverged from the log and stops until its tables are built anew",
			slog.String("error", cause))
	}
	return nil
}

// seek goes on from a checkpoint.
func (f *follower) seek(ctx context.Context, c checkpoint) {
	if f.identity != c.identity && f.identity != (eventlog.Identity{}) {
		f.logger.InfoContext(ctx,
			"The database was restarted or is another one; the projection goes on from its checkpoint there",
			slog.Any("before", f.identity), slog.Any("now", c.identity), slog.Any("position", c.position))
	}
	f.identity = c.identity
	f.subscription.Seek(c.position, c.identity)
}

// handle applies a batch. It returns no error: the message is done with in any case, and what it stood for comes
// again unless the checkpoint has moved past it.
func (f *follower) handle(m *message.Message) error {
	batch, ok := f.subscription.Batch(m)
	if !ok {
		return nil
	}
	// A transaction that has begun is finished even if the subscription closes.
	next, err := f.advance(context.WithoutCancel(m.Context()), batch)
	f.enter(m.Context(), next, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.behind = next == active && batch.Full && batch.End.Compare(f.trouble) >= 0
	return nil
}

// enter changes the mode and says so.
func (f *follower) enter(ctx context.Context, next mode, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mode = next
	if next == retrying {
		f.failures++
		level := slog.LevelDebug
		if f.failures >= transientLog {
			level = slog.LevelWarn
		}
		f.logger.Log(ctx, level, "Projection could not be written; trying again", slog.Int("failures", f.failures),
			slog.Any("error", err))
		return
	}
	f.failures = 0
	previous := f.reported
	f.reported = next
	switch {
	case next == previous:
	case next == waiting:
		f.logger.WarnContext(ctx, "Projection waits for a replica that knows the next event", slog.Any("error", err))
	case next == outdated:
		f.logger.InfoContext(ctx, "The live tables are of another generation than this program; leaving them alone")
	case next == stopped && err != nil:
		f.logger.ErrorContext(ctx, "Projection has failed and stops; the others go on", slog.Any("error", err))
	default:
		f.logger.DebugContext(ctx, "Projection changed hands or state", slog.Int("mode", int(next)), slog.Any("error", err))
	}
}

// before blocks until this replica should read the log for its projection.
func (f *follower) before(ctx context.Context) {
	for {
		wait, mode := f.pause()
		if mode == active && f.isBehind() {
			f.catchUp(ctx)
			continue
		}
		if mode == active || !eventlog.Sleep(ctx, wait) {
			return
		}
		c, err := loadCheckpoint(ctx, f.pool, f.projection)
		switch {
		case err != nil:
			f.enter(ctx, retrying, err)
			continue
		case c.generation != f.projection.Generation():
			f.enter(ctx, outdated, nil)
			continue
		case !c.inLog:
			if err := f.diverge(ctx, c); err != nil {
				f.enter(ctx, retrying, err)
				continue
			}
			f.enter(ctx, stopped, nil)
			continue
		case c.state != Running:
			f.enter(ctx, stopped, nil)
			continue
		}
		moved := c.position != f.subscription.Position()
		f.seek(ctx, c)
		switch {
		case mode != standby:
			f.resume()
		case moved:
			continue // whoever moved it is alive
		}
		return
	}
}

// resume makes this replica active, until the next batch says otherwise.
func (f *follower) resume() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mode = active
}

// pause returns how long to wait before looking at the checkpoint again.
func (f *follower) pause() (time.Duration, mode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch f.mode {
	case standby:
		// Standbys that wake together would all step in together.
		return standbyWait + rand.N(standbyWait/4), f.mode //nolint:gosec // not a secret
	case retrying:
		return min(firstRetry<<min(f.failures-1, 10), lastRetry), f.mode
	case waiting:
		return unknownWait, f.mode
	case stopped:
		return stoppedWait, f.mode
	case outdated:
		return outdatedWait, f.mode
	case active:
	}
	return 0, f.mode
}

// advance applies a batch as far as it goes.
func (f *follower) advance(ctx context.Context, batch eventlog.Batch) (mode, error) {
	if batch.Identity != f.identity {
		return retrying, eventlog.ErrOtherLog
	}
	start, err := f.apply(ctx, part{batch.Identity, batch.Start, batch.End, batch.Events})
	if err == nil && batch.Undecodable != nil {
		err = f.refuse(ctx, start, batch.Undecodable)
	}
	f.doubt(ctx, start, err)
	f.subscription.Seek(start, batch.Identity)
	return modeAfter(err), err
}

// doubt counts errors that may be an event's, and puts them on record for everybody to see.
func (f *follower) doubt(ctx context.Context, at events.Position, err error) {
	var doubt doubtError
	switch {
	case errors.As(err, &doubt):
		f.doubts++
	case modeAfter(err) != retrying:
		f.doubts = 0
	}
	if f.doubts != transientLog || doubt.error == nil {
		return
	}
	f.logger.ErrorContext(ctx, "Projection does not go on, for a reason that is no event's; it tries again",
		slog.Any("error", err))
	if _, err := f.pool.Exec(ctx, noteTroubleSQL, f.projection.Name(), at.TransactionID, at.Ordinal,
		eventlog.ErrorText(err)); err != nil {
		f.logger.WarnContext(ctx, "Why the projection does not go on could not be recorded", slog.Any("error", err))
	}
}

// modeAfter returns the mode to enter when an attempt has ended like this.
func modeAfter(err error) mode {
	var failed *failedError
	switch {
	case err == nil:
		return active
	case errors.Is(err, errGeneration):
		return outdated
	case errors.Is(err, errLost):
		return standby
	case errors.Is(err, events.ErrUnknownType):
		return waiting
	case errors.Is(err, errStopped), errors.As(err, &failed):
		return stopped
	}
	return retrying
}

// apply applies a part and returns how far it got. If some event cannot be applied, those before it are, and the
// projection stops there.
func (f *follower) apply(ctx context.Context, p part) (events.Position, error) {
	if p.start == p.end {
		return p.start, nil
	}
	err := attempt(ctx, f.pool, f.projection, p)
	var poison poisonError
	switch {
	case err == nil:
		return p.end, nil
	case len(p.events) == 0:
		return p.start, err
	case !errors.As(err, &poison) && !f.gaveUp(err):
		return p.start, err
	case len(p.events) == 1:
		return p.start, f.stop(ctx, p.start, p.events[0].Position, err)
	}
	half := len(p.events) / 2
	middle, err := f.apply(ctx, part{p.identity, p.start, p.events[half-1].Position, p.events[:half]})
	if err != nil {
		return middle, err
	}
	return f.apply(ctx, part{p.identity, middle, p.end, p.events[half:]})
}

// gaveUp reports whether an error that may be an event's has lasted so long that the event is to blame.
func (f *follower) gaveUp(err error) bool {
	var doubt doubtError
	return errors.As(err, &doubt) && f.doubts >= f.patience
}

// refuse deals with an event that cannot be read.
func (f *follower) refuse(ctx context.Context, start events.Position, undecodable *eventlog.UndecodableError) error {
	if !errors.Is(undecodable, events.ErrUnknownType) {
		return f.stop(ctx, start, undecodable.Recorded.Position, undecodable)
	}
	if _, err := f.pool.Exec(ctx, noteUnknownSQL, f.projection.Name(), start.TransactionID, start.Ordinal,
		undecodable.Type, f.projection.Generation()); err != nil {
		return fmt.Errorf("note unknown event type: %w", err)
	}
	return undecodable
}

// failedError says that a projection was stopped.
type failedError struct{ cause error }

func (e *failedError) Error() string { return e.cause.Error() }
func (e *failedError) Unwrap() error { return e.cause }

// stop records that the projection, whose checkpoint is at start, cannot get past an event.
func (f *follower) stop(ctx context.Context, start, at events.Position, cause error) error {
	tag, err := f.pool.Exec(ctx, failSQL, f.projection.Name(), start.TransactionID, start.Ordinal, at.TransactionID,
		at.Ordinal, eventlog.ErrorText(cause),
		f.projection.Generation(), f.identity.String())
	if err != nil {
		return fmt.Errorf("stop projection: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return errLost
	}
	return &failedError{cause: cause}
}
