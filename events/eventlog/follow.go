package eventlog

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"novelgate/events"
)

// Waits of a Follow.
const (
	DefaultPace  = 250 * time.Millisecond
	DefaultPoll  = time.Second
	pacePerEvent = 2 * time.Millisecond   // of a read that was not full
	firstRepeat  = time.Millisecond       // first wait while a running transaction hides events; doubles
	mostDeaf     = 16 * time.Millisecond  // longest such wait that ignores signals
	firstRetry   = 50 * time.Millisecond  // first wait after a failed turn; doubles …
	lastRetry    = 5 * time.Second        // … up to this
	standbyWait  = 250 * time.Millisecond // between two checks of the active replica's position
	blockedWait  = time.Second
	quietRetries = 2 // failures in a row before one is logged as a warning
)

var (
	// ErrStandby ends a turn because another replica is active.
	ErrStandby = errors.New("another replica is active")
	// ErrBlocked ends a turn that cannot continue until staff, or a replica of another version, acts.
	ErrBlocked = errors.New("blocked")
)

// Follow is the one loop of everything that reads the log as it grows; see the documentation of the package. The zero
// Follow reads once a second.
type Follow struct {
	// Wake tells of appends. Default: none.
	Wake *Wake
	// Pace is the longest pause after a read that found events and was not full, so that under load few large reads are
	// made rather than many small ones. A read of n events is followed by a pause of n × 2 ms, or until Pace after its
	// beginning: followers with different work then keep reading at about the same time. Default: DefaultPace.
	Pace time.Duration
	// Poll is the longest time between two reads. Default: DefaultPoll.
	Poll time.Duration
	// Position returns how far all replicas together have come. Run needs it.
	Position func(context.Context) (events.Position, error)
	// Logger gets the turns that failed. Default: slog.Default.
	Logger *slog.Logger
}

// Run takes one turn after another until ctx ends. A turn loads from the database where to go on, and works with Each
// until something is in the way. progress says that it got anything done.
func (f *Follow) Run(ctx context.Context, turn func(context.Context) (progress bool, err error)) {
	logger := cmp.Or(f.Logger, slog.Default())
	for failures := 0; ctx.Err() == nil; {
		progress, err := turn(ctx)
		if progress {
			failures = 0
		}
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, ErrStandby):
			failures = 0
			logger.DebugContext(ctx, "Standing by", slog.Any("reason", err))
			f.standBy(ctx)
		case errors.Is(err, ErrBlocked):
			failures = 0
			Sleep(ctx, blockedWait)
		default:
			failures++
			level := slog.LevelDebug
			if failures > quietRetries {
				level = slog.LevelWarn
			}
			logger.Log(ctx, level, "Following the log failed; trying again", slog.Int("failures", failures),
				slog.Any("error", err))
			Sleep(ctx, min(firstRetry<<min(failures-1, 10), lastRetry))
		}
	}
}

// standBy returns when the active replica stands still, or cannot be seen.
func (f *Follow) standBy(ctx context.Context) {
	last, err := f.Position(ctx)
	for err == nil {
		// Replicas that wake together would all step in together.
		if !Sleep(ctx, standbyWait+rand.N(standbyWait/4)) { //nolint:gosec // not a secret
			return
		}
		before := last
		if last, err = f.Position(ctx); last == before {
			return
		}
	}
}

// Each calls read at once, and again whenever the log may have grown, until read fails or ctx ends. read returns what
// it has found.
func (f *Follow) Each(ctx context.Context, read func(context.Context) (Span, error)) error {
	w := waits{pace: cmp.Or(f.Pace, DefaultPace), poll: cmp.Or(f.Poll, DefaultPoll)}
	var stop func()
	w.signals, stop = f.Wake.signals()
	defer stop()
	for {
		paced := time.NewTimer(w.pace)
		found, err := read(ctx)
		if err != nil {
			return err
		}
		w.wait(ctx, found, paced.C)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// waits is what Each remembers from one wait to the next.
type waits struct {
	pace, poll time.Duration
	signals    <-chan struct{}
	repeat     time.Duration // the latest wait for hidden events; 0 after a signal or events
	deaf       time.Duration // like repeat, but signals do not reset it
}

// wait returns when the next read is due. paced fires a pace after the latest one began.
func (w *waits) wait(ctx context.Context, found Span, paced <-chan time.Time) {
	if found.Read > 0 || found.Full || found.Settled {
		w.repeat, w.deaf = 0, 0
	}
	if found.Full {
		return
	}
	switch pause := time.Duration(found.Read) * pacePerEvent; {
	case pause < w.pace:
		Sleep(ctx, pause)
	default:
		select {
		case <-paced:
		case <-ctx.Done():
		}
	}
	next := w.poll
	if !found.Settled {
		// While an older transaction runs, every append sends its signal and none of them is seen.
		Sleep(ctx, min(w.deaf, mostDeaf))
		w.repeat = min(max(firstRepeat, 2*w.repeat), w.poll)
		w.deaf = min(max(firstRepeat, 2*w.deaf), w.poll)
		next = w.repeat
	}
	timer := time.NewTimer(next)
	defer timer.Stop()
	select {
	case <-w.signals:
		w.repeat = 0
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Sleep waits for d, or for the end of ctx if that comes first, and reports whether ctx is still alive.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
