package relay

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"github.com/nats-io/nats.go/jetstream"

	"novelgate/events"
	"novelgate/events/eventlog"
)

// compare sets the mark of the turn. It fails with a RefusedError unless the messages of both streams are the first
// events of the log.
func (t *turn) compare(ctx context.Context) error {
	state := t.main.CachedInfo().State
	if state.Msgs != state.LastSeq {
		return &RefusedError{
			Stream: t.main.name, LogIndex: -1,
			reason: fmt.Sprintf("it has %d messages up to sequence %d: some were deleted", state.Msgs, state.LastSeq),
		}
	}
	mark, err := t.compareStream(ctx, t.main)
	if err != nil {
		return err
	}
	t.at, err = t.compareStream(ctx, t.personal)
	if mark.Position < t.at.Position {
		t.at = mark
	}
	return err
}

// compareStream returns the mark after the last message of a stream. It compares this message, or the last one that is
// not deleted. That is enough: the leaf commits to the batch of the event, so two logs with the same leaf at an index
// have the same events before it (see eventlog.Mark), and a relay never appends without this comparison. If it differs,
// a RefusedError names the log index of the first difference.
func (t *turn) compareStream(ctx context.Context, s *stream) (end eventlog.Mark, err error) {
	if s.last == 0 {
		return eventlog.Mark{}, nil
	}
	index := s.logIndex() - 1
	found, end, err := t.compareAt(ctx, s, index)
	for found == deleted && index > 0 && err == nil {
		index--
		found, _, err = t.compareAt(ctx, s, index)
	}
	if err != nil || found != different {
		return end, err
	}
	first := sort.Search(int(index), func(i int) bool {
		if err == nil { // otherwise the search ends without further reads
			found, _, err = t.compareAt(ctx, s, int64(i))
		}
		return found == different
	})
	if err != nil {
		return eventlog.Mark{}, err
	}
	log, err := eventlog.End(ctx, t.db)
	if err != nil {
		return eventlog.Mark{}, err
	}
	reason := "their events differ from there on; the database was set back, or the stream is of another history"
	if log.Position <= events.Position(first) {
		reason = fmt.Sprintf("the log ends there, and the stream has events up to log index %d", s.last-1)
	}
	return eventlog.Mark{}, &RefusedError{Stream: s.name, LogIndex: int64(first), reason: reason}
}

// comparison is the result of comparing a message with the event of its log index.
type comparison int

const (
	different comparison = iota // or the log has no event
	same
	deleted // there is no message, and the log has an event: only in the personal stream
)

// compareAt compares the message of a log index with the log. It returns the mark after the event.
func (t *turn) compareAt(ctx context.Context, s *stream, index int64) (found comparison, end eventlog.Mark, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var leaf string
	span, err := eventlog.ReadRows(ctx, t.db, eventlog.Mark{Position: events.Position(index)}, eventlog.NewFetchSize(1),
		func(row *eventlog.Row) (err error) {
			leaf, err = leafOf(row)
			return err
		})
	if err != nil || span.Read == 0 {
		return different, eventlog.Mark{}, err
	}
	m, err := s.GetMsg(ctx, uint64(index+1)) //nolint:gosec // a log index
	switch {
	case s == t.personal && errors.Is(err, jetstream.ErrMsgNotFound):
		return deleted, span.End, nil
	case err != nil:
		return different, eventlog.Mark{}, fmt.Errorf("read message %d of %s: %w", index+1, s.name, err)
	case m.Header.Get(LeafHeader) != leaf:
		return different, span.End, nil
	}
	return same, span.End, nil
}
