package eventlog

import (
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill"
)

// Waiting between polls.
const (
	pacePerEvent = 2 * time.Millisecond  // of a batch that was not full
	firstRepeat  = time.Millisecond      // after a poll behind which a running transaction may hide events, …
	lastRepeat   = time.Second           // … doubling up to this; also the interval without signals
	leastRepeat  = 16 * time.Millisecond // how far signals may cut that short, once nothing was found again and again
	firstRetry   = 50 * time.Millisecond // after a poll that failed, …
	lastRetry    = 5 * time.Second       // … doubling up to this
)

// waits is what a subscription remembers from one wait to the next.
type waits struct {
	repeat time.Duration // the next wait for hidden events; 0 after a signal or a batch
	dry    time.Duration // like repeat, but signals do not reset it
	retry  time.Duration // the wait after the latest failed poll; 0 if it did not fail
}

// backoff is the BackoffManager: it does the waiting itself, so that a signal ends it.
type backoff Subscription

// HandleError blocks until the next poll is due and returns 0.
func (b *backoff) HandleError(_ watermill.LoggerAdapter, _ bool, err error) time.Duration {
	if b.closed.Err() != nil {
		return 0
	}
	switch {
	case err != nil:
		b.waits.retry = double(b.waits.retry, firstRetry, lastRetry)
		b.config.Logger.WarnContext(b.closed, "Reading the event log failed; trying again",
			slog.Any("error", err), slog.Duration("wait", b.waits.retry))
		Sleep(b.closed, b.waits.retry)
	case b.unread():
		b.waits = waits{}
		Sleep(b.closed, firstRepeat)
	case b.batch.Full:
		b.waits = waits{}
	default:
		b.waits.retry = 0
		b.await()
	}
	if b.config.Before != nil {
		b.config.Before(b.closed)
	}
	return 0
}

// unread reports whether the receiver of the latest batch left some of it for another time.
func (b *backoff) unread() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.batch.Undecodable != nil || b.position != b.batch.End
}

// await waits for the log to grow, after a poll that read all there was.
func (b *backoff) await() {
	if b.poll.events > 0 {
		b.waits.repeat, b.waits.dry = 0, 0
		Sleep(b.closed, min(b.config.Pace, time.Duration(b.poll.events)*pacePerEvent))
	}
	if b.poll.shared {
		return // the signal of what came after it may have been taken already
	}
	wait := lastRepeat
	if b.poll.settled {
		b.waits.repeat, b.waits.dry = 0, 0
	} else {
		// While an older transaction runs, every append sends its signal and none of them is seen.
		Sleep(b.closed, min(b.waits.dry, leastRepeat))
		b.waits.repeat = double(b.waits.repeat, firstRepeat, lastRepeat)
		b.waits.dry = double(b.waits.dry, firstRepeat, lastRepeat)
		wait = b.waits.repeat
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-b.signals:
		b.waits.repeat = 0
	case <-timer.C:
	case <-b.closed.Done():
	}
}

func double(last, first, most time.Duration) time.Duration {
	return min(max(first, 2*last), most)
}
