package history

import (
	"context"
	"errors"
	"time"

	"novelgate/events/eventlog"
)

// Waits of a stream: the pause after a read that found a longer log, and the longest time without a read.
const (
	pace = 5 * time.Millisecond
	poll = 400 * time.Millisecond
)

// streamPage is how many events a stream holds in memory at a time.
const streamPage = 500

// Stream is a walk along the log that ends at the horizon, or goes on with it.
type Stream struct {
	Reader *Reader
	Limit  int            // number of events after which it ends; 0: no limit
	Follow bool           // goes on when the end is reached
	Wake   *eventlog.Wake // says that the log may have grown; nil: it is looked at every 400 ms
}

// Run calls emit with what follows a cursor, page by page and in short transactions, and idle between pages and while
// it waits, every 400 ms. It ends when there is no more, ctx ends, or one of the two returns an error.
func (s *Stream) Run(ctx context.Context, after Cursor, emit func([]Event) error, idle func() error) error {
	w := walk{Stream: s, after: after, left: s.Limit, emit: emit, idle: idle}
	follow := eventlog.Follow{Wake: s.Wake, Pace: pace, Poll: poll}
	if err := follow.Each(ctx, w.step); !errors.Is(err, errEnd) {
		return err
	}
	return nil
}

// errEnd ends a walk that has come to its end.
var errEnd = errors.New("end of the stream")

// walk is how far a stream has come.
type walk struct {
	*Stream

	after   Cursor
	horizon Horizon
	begun   bool
	more    bool // below the horizon
	left    int  // of Limit
	emit    func([]Event) error
	idle    func() error
}

// step emits a page, or looks for a horizon that is further.
func (w *walk) step(ctx context.Context) (eventlog.Span, error) {
	if !w.more {
		horizon, err := w.Reader.Horizon(ctx)
		if err != nil {
			return eventlog.Span{}, err
		}
		// It is another one when it is further, or when the log was set back.
		if w.begun && horizon.xmin == w.horizon.xmin {
			return eventlog.Span{Settled: horizon.settled}, w.idle()
		}
		w.horizon, w.begun = horizon, true
	}
	limit := streamPage
	if w.Limit > 0 {
		limit = min(limit, w.left)
	}
	page, err := w.Reader.Page(ctx, w.after, w.horizon, limit)
	if err != nil {
		return eventlog.Span{}, err
	}
	w.after, w.more = page.Next, page.More
	if len(page.Events) > 0 {
		if err := w.emit(page.Events); err != nil {
			return eventlog.Span{}, err
		}
	}
	w.left -= len(page.Events)
	if w.Limit > 0 && w.left == 0 {
		return eventlog.Span{}, errEnd
	}
	if err := w.idle(); err != nil {
		return eventlog.Span{}, err
	}
	if !w.more && !w.Follow {
		return eventlog.Span{}, errEnd
	}
	return eventlog.Span{Read: page.Looked, Full: w.more, Settled: w.horizon.settled}, nil
}
