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
	defaultPace   = 250 * time.Millisecond
	defaultPoll   = time.Second
	pacePerEvent  = 2 * time.Millisecond  // of a read that was not full
	firstRetry    = 50 * time.Millisecond // first wait after a failed turn; doubles up to maxRetry
	maxRetry      = 5 * time.Second
	standbyWait   = 250 * time.Millisecond // between two checks of the active replica's position
	blockedWait   = time.Second
	quietFailures = 2 // consecutive failures without a warning in the log
)

var (
	// ErrStandby ends a turn because another replica is active.
	ErrStandby = errors.New("another replica is active")
	// ErrBlocked ends a turn that cannot continue until staff, or a replica of another version, acts.
	ErrBlocked = errors.New("blocked")
	// ErrEnd ends Each without an error.
	ErrEnd = errors.New("end")
)

// Follow is the loop of all readers that follow the log; see the documentation of the package. The zero Follow reads
// once a second.
type Follow struct {
	// Wake signals appends. Default: none.
	Wake *Wake
	// Pace is the longest pause after a read that found events and was not full, so that reads under load are few and
	// large. A read of n events is followed by a pause of n × 2 ms. If that is not less than Pace, the pause ends Pace
	// after the start of the read: so different followers keep reading at about the same time. Default: 250 ms.
	Pace time.Duration
	// Poll is the longest wait for a signal, after the pause. Default: 1 s.
	Poll time.Duration
	// Position returns the common progress of all replicas. Run needs it.
	Position func(context.Context) (events.Position, error)
	// Logger gets the failed turns. Default: slog.Default.
	Logger *slog.Logger
}

// Run takes one turn after another until ctx ends. A turn loads its progress from the database and works with Each
// until an error. progress reports whether the turn got anything done.
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
			if failures > quietFailures {
				level = slog.LevelWarn
			}
			logger.Log(ctx, level, "Following the log failed; trying again", slog.Int("failures", failures),
				slog.Any("error", err))
			Sleep(ctx, min(firstRetry<<min(failures-1, 10), maxRetry))
		}
	}
}

// standBy returns when the position stops moving or cannot be read, or when ctx ends.
func (f *Follow) standBy(ctx context.Context) {
	last, err := f.Position(ctx)
	for err == nil {
		// Jitter, so that replicas do not take over at the same moment.
		if !Sleep(ctx, standbyWait+rand.N(standbyWait/4)) { //nolint:gosec // not a secret
			return
		}
		before := last
		if last, err = f.Position(ctx); last == before {
			return
		}
	}
}

// Each calls read at once, and again whenever the log may have grown, until read fails or ctx ends. It returns nil
// if read fails with ErrEnd.
func (f *Follow) Each(ctx context.Context, read func(context.Context) (Span, error)) error {
	p := pacer{pace: cmp.Or(f.Pace, defaultPace), poll: cmp.Or(f.Poll, defaultPoll)}
	var stop func()
	p.signals, stop = f.Wake.subscribe()
	defer stop()
	for {
		paced := time.NewTimer(p.pace)
		found, err := read(ctx)
		if errors.Is(err, ErrEnd) {
			return nil
		}
		if err != nil {
			return err
		}
		p.wait(ctx, found, paced.C)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// pacer waits between the reads of Each.
type pacer struct {
	pace, poll time.Duration
	signals    <-chan struct{}
}

// wait returns when the next read is due. found is the result of the latest read; paced fires when the pace since the
// start of that read has passed.
func (p *pacer) wait(ctx context.Context, found Span, paced <-chan time.Time) {
	if found.Full {
		return
	}
	if pause := time.Duration(found.Read) * pacePerEvent; pause < p.pace {
		Sleep(ctx, pause)
	} else {
		select {
		case <-paced:
		case <-ctx.Done():
		}
	}
	timer := time.NewTimer(p.poll)
	defer timer.Stop()
	select {
	case <-p.signals:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Sleep waits for d or until ctx ends, and reports whether ctx is still alive.
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
