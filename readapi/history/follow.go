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
	var end Cursor              // of the log, when it was last read
	begun, more := false, false // more events are before the end
	left := s.Limit
	follow := eventlog.Follow{Wake: s.Wake, Pace: pace, Poll: poll}
	return follow.Each(ctx, func(ctx context.Context) (eventlog.Span, error) {
		if !more {
			now, err := s.Reader.End(ctx)
			if err != nil {
				return eventlog.Span{}, err
			}
			if begun && now == end {
				return eventlog.Span{}, idle()
			}
			end, begun = now, true
		}
		limit := streamPage
		if s.Limit > 0 {
			limit = min(limit, left)
		}
		reading, cancel := context.WithTimeout(ctx, cmp.Or(s.Patience, defaultPatience))
		defer cancel()
		page, err := s.Reader.Page(reading, after, end, limit)
		if err != nil {
			return eventlog.Span{}, err
		}
		read := int(page.Next.Position - after.Position)
		after, more = page.Next, page.More
		if len(page.Events) > 0 {
			if err := emit(page.Events); err != nil {
				return eventlog.Span{}, err
			}
		}
		if left -= len(page.Events); s.Limit > 0 && left == 0 {
			return eventlog.Span{}, eventlog.ErrEnd
		}
		if err := idle(); err != nil {
			return eventlog.Span{}, err
		}
		if !more && !s.Follow {
			return eventlog.Span{}, eventlog.ErrEnd
		}
		return eventlog.Span{Read: read, Full: more}, nil
	})
}
