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

// DefaultLimit is the default maximum number of events that a Tail reads at once: more than are appended in the pace of
// its followers at full load, because from the second full read on each projection reads the log by itself.
const DefaultLimit = 8192

// Time limits of a read and of closing the connection. All followers of a process wait meanwhile.
const (
	readTimeout       = 30 * time.Second
	disconnectTimeout = time.Second
)

// Tail caches the newest part of the log for all followers of a process: the rows, for ledger and relay, and the events
// decoded from them, for projections. It reads over one connection. The cache is valid while the identity of the log
// stays the same: settled events do not change, except for erasures, and no event appears between two of them.
//
// One follower reads at a time. The next one waits and finds the result in the cache. A slow follower gets all cached
// events after its position in one chunk.
type Tail struct {
	config *pgx.ConnConfig
	fetch  *FetchSize

	mu    sync.Mutex // held while reading
	conn  *pgx.Conn
	cache *window // nil: empty
}

// NewTail returns an empty Tail that connects with config. A read returns at most limit events; 0: DefaultLimit.
func NewTail(config *pgx.ConnConfig, limit int) *Tail {
	return &Tail{config: config, fetch: NewFetchSize(cmp.Or(limit, DefaultLimit))}
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

// Forget clears the cache. A projection calls it at the start of a turn: an operator may have repaired an event in the
// database that it could not apply.
func (t *Tail) Forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cache = nil
}

// Read returns the settled events after a position. It keeps those whose stream type is in streamTypes (nil keeps all).
// The chunk ends before the first event that cannot be decoded, which is then in Undecodable. Read fails with
// ErrOtherLog if the log has another identity than expected.
func (t *Tail) Read(
	ctx context.Context, after events.Position, expected Identity, streamTypes []string,
) (Chunk, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w, err := t.windowAfter(ctx, after, expected)
	if err != nil {
		return Chunk{}, err
	}
	w.decode()
	return w.from(after, streamTypes), nil
}

// ReadRows returns the rows of the settled events after a position, with their metadata. It fails with ErrOtherLog if
// the log has another identity than expected.
func (t *Tail) ReadRows(ctx context.Context, after events.Position, expected Identity) (Span, []Row, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w, err := t.windowAfter(ctx, after, expected)
	if err != nil {
		return Span{}, nil, err
	}
	first := sort.Search(len(w.rows), func(i int) bool { return w.rows[i].Position.Compare(after) > 0 })
	span, rows := w.Span, w.rows[first:]
	span.Start, span.Read = after, len(rows)
	return span, rows[:len(rows):len(rows)], nil
}

// windowAfter returns a window that contains the rows after a position: the cached one, or else one that it reads.
func (t *Tail) windowAfter(ctx context.Context, after events.Position, expected Identity) (*window, error) {
	w := t.cache
	if w != nil && w.Identity == expected && after.Compare(w.Start) >= 0 && after.Compare(w.End) < 0 {
		w.Settled = false // unknown: later appends may be missing, and their wake-up may have been consumed
		return w, nil
	}
	read, err := t.read(ctx, after, expected)
	switch {
	case err != nil:
		t.disconnect(ctx)
		return nil, err
	case w != nil && w.Identity == expected && after == w.End: // the continuation of the cached window
		w.append(read, t.fetch.maxEvents)
		return w, nil
	case read.Read > 0 && (w == nil || w.Identity != expected || read.End.Compare(w.End) > 0): // newer than the cache
		t.cache = read
	}
	return read, nil
}

func (t *Tail) read(ctx context.Context, after events.Position, expected Identity) (w *window, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if t.conn == nil || t.conn.IsClosed() {
		if t.conn, err = Connect(ctx, t.config); err != nil {
			return nil, err
		}
	}
	w = &window{}
	w.rows = make([]Row, 0, t.fetch.lastCount+1)
	w.Span, err = ReadRows(ctx, t.conn, after, expected, t.fetch, func(row *Row) error {
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

// append adds the next part of the log to the window. It drops the oldest rows above the limits of a read, but none of
// the next part. It does not modify slices that were returned before.
func (w *window) append(next *window, maxEvents int) {
	w.rows = append(w.rows, next.rows...)
	w.bytes += next.bytes
	w.End, w.Full, w.Settled = next.End, next.Full, next.Settled
	excess := 0 // number of rows to drop
	for left := len(w.rows); left > maxEvents || enoughBytes(w.bytes) && left > len(next.rows); left-- {
		w.bytes -= w.rows[excess].size()
		excess++
	}
	if excess == 0 {
		return
	}
	w.Start = w.rows[excess-1].Position
	w.rows, w.decoded = w.rows[excess:], max(0, w.decoded-excess)
	w.Events = w.Events[indexAfter(w.Events, w.Start):]
	w.Undecodable = slices.DeleteFunc(slices.Clone(w.Undecodable),
		func(e *UndecodableError) bool { return e.Recorded.Position.Compare(w.Start) <= 0 })
}

// decode decodes the rows that are not decoded yet.
func (w *window) decode() {
	if w.Events == nil {
		w.Events = make([]events.Recorded, 0, len(w.rows))
	}
	for ; w.decoded < len(w.rows); w.decoded++ {
		w.add(&w.rows[w.decoded])
	}
}

// indexAfter returns the index of the first event after a position.
func indexAfter(list []events.Recorded, p events.Position) int {
	return sort.Search(len(list), func(i int) bool { return list[i].Position.Compare(p) > 0 })
}

// from returns the part of a chunk after start, up to the first event that cannot be decoded. It keeps the events whose
// stream type is in streamTypes (nil keeps all).
func (c *Chunk) from(start events.Position, streamTypes []string) Chunk {
	part := *c
	part.Start, part.Undecodable = start, nil
	part.Events = c.Events[indexAfter(c.Events, start):]
	for _, bad := range c.Undecodable {
		at := bad.Recorded.Position
		if at.Compare(start) <= 0 || !includes(streamTypes, bad.Recorded.StreamType) {
			continue
		}
		part.cut(indexAfter(part.Events, at))
		part.Undecodable = []*UndecodableError{bad}
		break
	}
	part.Events = part.Events[:len(part.Events):len(part.Events)]
	part.Read = len(part.Events)
	if streamTypes != nil {
		part.Events = slices.DeleteFunc(slices.Clone(part.Events),
			func(e events.Recorded) bool { return !includes(streamTypes, e.StreamType) })
	}
	return part
}

// cut keeps the first n events. The chunk ends with the last of them.
func (c *Chunk) cut(n int) {
	c.Events, c.End, c.Full = c.Events[:n], c.Start, false
	if n > 0 {
		c.End = c.Events[n-1].Position
	}
}
