package history

import (
	"cmp"
	"context"
	"time"

	"novelgate/events/eventlog"
)

const (
	pace = 5 * time.Millisecond   // longest pause after a read that found events
	poll = 400 * time.Millisecond // longest time between two reads

	defaultPatience = 15 * time.Second
)

// streamPage is the maximum number of events that a stream holds in memory.
const streamPage = 500

// Stream reads the log up to its end, or follows it.
type Stream struct {
	Reader *Reader
	Limit  int            // number of events after which the stream ends; 0: no limit
	Follow bool           // continue at the end of the log
	Wake   *eventlog.Wake // signals appends; nil: the log is read every 400 ms
	// Patience is the longest time for a page; default 15 s. Without a limit, streams that wait for the synchronous
	// standby would keep the connections of the history, and would not notice a shutdown.
	Patience time.Duration
}

// Run calls emit with the events after a cursor, page by page, in short transactions. It calls idle between pages and
// every 400 ms while it waits. It ends at the end of the stream, when ctx ends, or when reading, emit or idle fails.
func (s *Stream) Run(ctx context.Context, after Cursor, emit func([]Event) error, idle func() error) error {
	w := walk{Stream: s, after: after, left: s.Limit, emit: emit, idle: idle}
	follow := eventlog.Follow{Wake: s.Wake, Pace: pace, Poll: poll}
	return follow.Each(ctx, w.step)
}

// walk is the state of a running stream.
type walk struct {
	*Stream

	after Cursor
	end   Cursor // of the log, when it was last read
	begun bool
	more  bool // more events are before the end
	left  int  // of Limit
	emit  func([]Event) error
	idle  func() error
}

// step emits a page, or waits for new events.
func (w *walk) step(ctx context.Context) (eventlog.Span, error) {
	if !w.more {
		end, err := w.Reader.End(ctx)
		if err != nil {
			return eventlog.Span{}, err
		}
		if w.begun && end == w.end {
			return eventlog.Span{}, w.idle()
		}
		w.end, w.begun = end, true
	}
	limit := streamPage
	if w.Limit > 0 {
		limit = min(limit, w.left)
	}
	page, err := w.page(ctx, limit)
	if err != nil {
		return eventlog.Span{}, err
	}
	read := int(page.Next.Position - w.after.Position)
	w.after, w.more = page.Next, page.More
	if len(page.Events) > 0 {
		if err := w.emit(page.Events); err != nil {
			return eventlog.Span{}, err
		}
	}
	w.left -= len(page.Events)
	if w.Limit > 0 && w.left == 0 {
		return eventlog.Span{}, eventlog.ErrEnd
	}
	if err := w.idle(); err != nil {
		return eventlog.Span{}, err
	}
	if !w.more && !w.Follow {
		return eventlog.Span{}, eventlog.ErrEnd
	}
	return eventlog.Span{Read: read, Full: w.more}, nil
}

func (w *walk) page(ctx context.Context, limit int) (Page, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(w.Patience, defaultPatience))
	defer cancel()
	return w.Reader.Page(ctx, w.after, w.end, limit)
}
