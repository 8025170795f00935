package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sort"

	"github.com/nats-io/nats.go/jetstream"

	"novelgate/events/ledger"
)

// compare fails with a RefusedError unless the messages of the streams are the first events of the ledger. It compares
// only the last message of each stream, because its leaf commits to the whole event, and a relay never appends without
// this comparison. It fails with errSetBack while the ledger is behind a stream and the log is being sealed.
func (t *turn) compare(ctx context.Context, sealed ledger.Sealed) error {
	state := t.main.CachedInfo().State
	if state.Msgs != state.LastSeq {
		return &RefusedError{
			Stream: t.main.name, LogIndex: -1,
			reason: fmt.Sprintf("it has %d messages up to sequence %d: some were deleted", state.Msgs, state.LastSeq),
		}
	}
	if err := t.compareBelow(ctx, t.main, min(t.main.logIndex(), sealed.Size), sealed.Size); err != nil {
		return err
	}
	// The last messages of the personal stream may be deleted: compare the last one that exists.
	end := min(t.personal.logIndex(), sealed.Size)
	for ; end > 0; end-- {
		_, err := t.personal.GetMsg(ctx, uint64(end)) // the message before log index end
		if err == nil {
			break
		}
		if !errors.Is(err, jetstream.ErrMsgNotFound) {
			return fmt.Errorf("read message %d of %s: %w", end, t.personal.name, err)
		}
	}
	if err := t.compareBelow(ctx, t.personal, end, sealed.Size); err != nil {
		return err
	}
	for _, s := range []*stream{t.main, t.personal} {
		switch {
		case s.logIndex() <= sealed.Size:
		case sealed.Unsealed:
			return fmt.Errorf("%w: it has %d entries, and %s has %d; the log is being sealed", errSetBack, sealed.Size,
				s.name, s.last)
		default:
			return &RefusedError{
				Stream: s.name, LogIndex: sealed.Size,
				reason: fmt.Sprintf("the log ends there, and the stream has events up to log index %d", s.last-1),
			}
		}
	}
	return nil
}

// compareBelow compares the message before log index end with the ledger. If they differ, it fails with a RefusedError
// that names the log index of the first difference.
func (t *turn) compareBelow(ctx context.Context, s *stream, end, size int64) error {
	if end == 0 {
		return nil
	}
	same, err := t.same(ctx, s, end-1, size)
	if err != nil || same {
		return err
	}
	first := sort.Search(int(end-1), func(i int) bool {
		if err != nil {
			return false // the search ends without further reads
		}
		same, err = t.same(ctx, s, int64(i), size)
		return !same
	})
	if err != nil {
		return err
	}
	return &RefusedError{
		Stream: s.name, LogIndex: int64(first),
		reason: "their events differ from there on; the database was set back, or the stream is of another history",
	}
}

// same reports whether the message of a log index has the same event as the ledger. A deleted personal message counts
// as the same.
func (t *turn) same(ctx context.Context, s *stream, index, size int64) (bool, error) {
	list, err := t.read(ctx, index, 1, size)
	if err != nil {
		return false, err
	}
	found, err := s.GetMsg(ctx, uint64(index+1)) //nolint:gosec // a log index
	if s == t.personal && errors.Is(err, jetstream.ErrMsgNotFound) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read message %d of %s: %w", index+1, s.name, err)
	}
	m := &list[0]
	want := m.event
	if s == t.personal {
		want = m.row.Personal
		if len(want) == 0 {
			want = found.Data // erased in the log, maybe not yet here
		}
		if len(found.Data) == 0 {
			want = nil // it was erased before it was published, and the log was restored since
		}
	}
	return found.Subject == s.prefix+m.subject && found.Header.Get(LeafHeader) == m.leaf &&
		bytes.Equal(found.Data, want), nil
}
