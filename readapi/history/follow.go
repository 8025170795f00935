package history

import (
	"context"
	"time"
)

// Waiting for the log to grow.
const (
	firstRepeat = time.Millisecond       // after a read behind which a running transaction may hide events, …
	lastRepeat  = 400 * time.Millisecond // … doubling up to this; also the interval without signals
	pace        = 5 * time.Millisecond   // the least time between two reads of new events
)

// streamPage is how many events a stream holds in memory at a time.
const streamPage = 500

// Stream is a walk along the log that ends at the horizon, or goes on with it.
type Stream struct {
	Reader *Reader
	Limit  int             // ends after so many events; 0: no limit
	Follow bool            // goes on when the end is reached
	Signal <-chan struct{} // says that the log may have grown; nil: it is looked at every 400 ms
}

// Run calls emit with what follows a cursor, page by page and in short transactions, and idle between pages and while
// it waits, every 400 ms. It ends when there is no more, ctx ends, or one of the two returns an error.
func (s *Stream) Run(ctx context.Context, after Cursor, emit func([]Event) error, idle func() error) error {
	horizon, err := s.Reader.Horizon(ctx)
	if err != nil {
		return err
	}
	left, repeat := s.Limit, time.Duration(0)
	for {
		limit := streamPage
		if s.Limit > 0 {
			limit = min(limit, left)
		}
		page, err := s.Reader.Page(ctx, after, horizon, limit)
		if err != nil {
			return err
		}
		after = page.Next
		if len(page.Events) > 0 {
			if err := emit(page.Events); err != nil {
				return err
			}
			repeat = 0
		}
		if left -= len(page.Events); s.Limit > 0 && left == 0 {
			return nil
		}
		if err := idle(); err != nil {
			return err
		}
		if page.More {
			continue
		}
		if !s.Follow {
			return nil
		}
		if horizon, repeat, err = s.await(ctx, horizon, repeat, idle); err != nil {
			return err
		}
	}
}

// await returns another horizon than the last one: one that is further, or that of a log that was set back.
func (s *Stream) await(
	ctx context.Context, last Horizon, repeat time.Duration, idle func() error,
) (Horizon, time.Duration, error) {
	wait := pace
	for {
		if err := s.sleep(ctx, wait); err != nil {
			return Horizon{}, 0, err
		}
		horizon, err := s.Reader.Horizon(ctx)
		if err != nil {
			return Horizon{}, 0, err
		}
		if horizon.xmin != last.xmin {
			return horizon, repeat, nil
		}
		if err := idle(); err != nil {
			return Horizon{}, 0, err
		}
		wait = lastRepeat
		if !horizon.settled {
			// Its end gives no signal that would be seen here: events that it hides may have been signalled before.
			repeat = min(max(firstRepeat, 2*repeat), lastRepeat)
			wait = repeat
		}
	}
}

// sleep waits for a signal or for d, and at least for the pace.
func (s *Stream) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	signal := s.Signal
	if d <= pace {
		signal = nil
	}
	select {
	case <-timer.C:
		return nil
	case <-signal:
		return s.sleep(ctx, pace)
	case <-ctx.Done():
		return ctx.Err()
	}
}
