package eventlog

import (
	"cmp"
	"context"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"novelgate/events"
)

// DefaultLimit is the most events in a chunk that a Tail reads, unless NewTail says otherwise.
const DefaultLimit = 4096

// All followers of a process wait for the one read of a Tail, so neither it nor the end of its connection may take
// longer than this.
const (
	readTimeout       = 30 * time.Second
	disconnectTimeout = time.Second
)

// Tail reads the newest part of the log once for all followers of a process, over one connection, and keeps it: the
// rows, for the ledger, and the events that are decoded from them, for projections. That is sound because settled
// events do not change, except for erasures, and nothing ever appears between two of them, while the log is the same
// one. A follower that comes second waits for the first, and finds what that has read. Followers of different pace find
// what was read since their last time, in one chunk.
type Tail struct {
	config  *pgx.ConnConfig
	portion *Portion

	mu   sync.Mutex // held while reading
	conn *pgx.Conn
	kept *window // nil: nothing
}

// NewTail returns an empty Tail whose chunks have at most so many events. It connects with this configuration.
func NewTail(config *pgx.ConnConfig, limit int) *Tail {
	return &Tail{config: config, portion: NewPortion(cmp.Or(limit, DefaultLimit))}
}

// Close closes the connection.
func (t *Tail) Close(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.disconnect(ctx)
}

func (t *Tail) disconnect(ctx context.Context) {
	if t.conn != nil {
		ctx, cancel := context.WithTimeout(ctx, disconnectTimeout)
		defer cancel()
		_ = t.conn.Close(ctx) // there is nothing to lose
		t.conn = nil
	}
}

// Forget drops what is kept: what could not be applied may be mended in the database by hand.
func (t *Tail) Forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = nil
}

// Read returns the settled events of some kinds of stream behind a position of a log; nil stands for all. The chunk
// ends in front of the first of them that cannot be decoded, which it names. It fails with ErrOtherLog if the log is
// another one by now.
func (t *Tail) Read(ctx context.Context, after events.Position, of Identity, streams []string) (Chunk, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w, err := t.behind(ctx, after, of)
	if err != nil {
		return Chunk{}, err
	}
	if err := w.decode(); err != nil {
		return Chunk{}, err
	}
	return w.from(after, streams), nil
}

// ReadRows returns the rows of the settled events behind a position of a log, with their metadata. It fails with
// ErrOtherLog if the log is another one by now.
func (t *Tail) ReadRows(ctx context.Context, after events.Position, of Identity) (Span, []Row, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w, err := t.behind(ctx, after, of)
	if err != nil {
		return Span{}, nil, err
	}
	first := sort.Search(len(w.rows), func(i int) bool { return w.rows[i].Position.Compare(after) > 0 })
	span, rows := w.Span, w.rows[first:]
	span.Start, span.Read = after, len(rows)
	return span, rows[:len(rows):len(rows)], nil
}

// behind returns a window that has all that is known, or read now, behind a position.
func (t *Tail) behind(ctx context.Context, after events.Position, of Identity) (*window, error) {
	w := t.kept
	if w != nil && w.Identity == of && after.Compare(w.Start) >= 0 && after.Compare(w.End) < 0 {
		w.Settled = false // nobody knows what came since, and its signal may have been taken already
		return w, nil
	}
	read, err := t.read(ctx, after, of)
	switch {
	case err != nil:
		t.disconnect(ctx)
		return nil, err
	case w != nil && w.Identity == of && after == w.End:
		w.append(read, t.portion.most)
		return w, nil
	case read.Read > 0 && (w == nil || w.Identity != of || read.End.Compare(w.End) > 0):
		t.kept = read
	}
	return read, nil
}

func (t *Tail) read(ctx context.Context, after events.Position, of Identity) (w *window, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if t.conn == nil || t.conn.IsClosed() {
		if t.conn, err = Connect(ctx, t.config); err != nil {
			return nil, err
		}
	}
	w = &window{}
	w.rows = make([]Row, 0, t.portion.latest+1)
	w.Span, err = ReadRows(ctx, t.conn, after, of, t.portion, func(row *Row) error {
		w.bytes += row.size()
		w.rows = append(w.rows, row.Clone())
		return nil
	})
	return w, err
}

// window is a part of the log with its rows and, as far as they are decoded, its events.
type window struct {
	Chunk

	rows    []Row
	bytes   int // of the rows
	decoded int // rows
}

// append adds the part of the log behind the window, and drops its beginning if it is larger than a chunk may be then.
// What was handed out before stays as it is.
func (w *window) append(next *window, most int) {
	w.rows = append(w.rows, next.rows...)
	w.bytes += next.bytes
	w.End, w.Full, w.Settled = next.End, next.Full, next.Settled
	excess := 0
	for left := len(w.rows); left > max(most, len(next.rows)) || spent(w.bytes) && left > len(next.rows); left-- {
		w.bytes -= w.rows[excess].size()
		excess++
	}
	if excess == 0 {
		return
	}
	w.Start = w.rows[excess-1].Position
	w.rows, w.decoded = w.rows[excess:], max(0, w.decoded-excess)
	w.Events = w.Events[after(w.Events, w.Start):]
	w.Undecodable = slices.DeleteFunc(slices.Clone(w.Undecodable),
		func(e *UndecodableError) bool { return e.Recorded.Position.Compare(w.Start) <= 0 })
}

// decode decodes the rows that are not decoded yet.
func (w *window) decode() error {
	if w.Events == nil {
		w.Events = make([]events.Recorded, 0, len(w.rows))
	}
	for ; w.decoded < len(w.rows); w.decoded++ {
		if err := w.add(&w.rows[w.decoded]); err != nil {
			return err
		}
	}
	return nil
}

// after returns the number of the first event behind a position.
func after(list []events.Recorded, p events.Position) int {
	return sort.Search(len(list), func(i int) bool { return list[i].Position.Compare(p) > 0 })
}

// from returns the events of a chunk behind a position, of some kinds of stream, up to the first of them that cannot be
// decoded. The chunk has those of all kinds.
func (c *Chunk) from(start events.Position, streams []string) Chunk {
	part := *c
	part.Start, part.Undecodable = start, nil
	part.Events = c.Events[after(c.Events, start):]
	for _, bad := range c.Undecodable {
		at := bad.Recorded.Position
		if at.Compare(start) <= 0 || !follows(streams, bad.Recorded.StreamType) {
			continue
		}
		part.cut(after(part.Events, at))
		part.Undecodable = []*UndecodableError{bad}
		break
	}
	part.Events = part.Events[:len(part.Events):len(part.Events)]
	part.Read = len(part.Events)
	if streams != nil {
		part.Events = slices.DeleteFunc(slices.Clone(part.Events),
			func(e events.Recorded) bool { return !follows(streams, e.StreamType) })
	}
	return part
}

// cut leaves the first n events.
func (c *Chunk) cut(n int) {
	c.Events, c.End, c.Full = c.Events[:n], c.Start, false
	if n > 0 {
		c.End = c.Events[n-1].Position
	}
}
