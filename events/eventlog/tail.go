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
// decoded from them, for projections. It reads over one connection. Events do not change, except for erasures; before
// it adds what was appended, it checks that the log still has the last cached event.
//
// One follower reads at a time. The next one waits and finds the result in the cache. A slow follower gets all cached
// events from its position on in one chunk.
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

// Read returns the events from a mark on. It keeps those whose stream type is in streamTypes (nil keeps all). The chunk
// ends before the first event that cannot be decoded, which is then in Undecodable. Its errors are those of ReadRows.
func (t *Tail) Read(ctx context.Context, from Mark, streamTypes []string) (Chunk, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w, err := t.windowFrom(ctx, from)
	if err != nil {
		return Chunk{}, err
	}
	w.decode()
	return w.from(from, streamTypes), nil
}

// ReadRows returns the rows of the events from a mark on. Its errors are those of the function ReadRows.
func (t *Tail) ReadRows(ctx context.Context, from Mark) (Span, []Row, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w, err := t.windowFrom(ctx, from)
	if err != nil {
		return Span{}, nil, err
	}
	span, rows := w.Span, w.rows[from.Position-w.Start:]
	span.Start, span.Read = from.Position, len(rows)
	return span, rows[:len(rows):len(rows)], nil
}

// windowFrom returns a window that starts at a mark or before it and goes on to the end of the log, or is full.
func (t *Tail) windowFrom(ctx context.Context, from Mark) (*window, error) {
	w := t.cache
	if w == nil || !w.has(from) {
		read, err := t.read(ctx, from)
		if err == nil && read.Read > 0 && (w == nil || read.End.Position > w.End.Position) {
			t.cache = read
		}
		return read, err
	}
	if from.Position < w.End.Position && w.Full {
		return w, nil
	}
	read, err := t.read(ctx, w.End)
	if err != nil {
		t.cache = nil // after ErrOtherLog it is wrong
		return nil, err
	}
	w.append(read, t.fetch.maxEvents)
	if !w.has(from) { // it was dropped
		return t.read(ctx, from)
	}
	return w, nil
}

// read returns a window that starts at a mark.
func (t *Tail) read(ctx context.Context, from Mark) (w *window, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	defer func() {
		if err != nil {
			t.disconnect(ctx)
		}
	}()
	if t.conn == nil || t.conn.IsClosed() {
		if t.conn, err = Connect(ctx, t.config); err != nil {
			return nil, err
		}
	}
	w = &window{before: from}
	w.rows = make([]Row, 0, t.fetch.lastCount+1)
	w.Span, err = ReadRows(ctx, t.conn, from, t.fetch, func(row *Row) error {
		w.bytes += row.size()
		w.rows = append(w.rows, row.Clone())
		return nil
	})
	return w, err
}

// window is a part of the log with its rows and, as far as they are decoded, its events.
type window struct {
	Chunk

	before  Mark // at Start
	rows    []Row
	bytes   int // of the rows
	decoded int // rows
}

// has reports whether a mark is in the window or at its end.
func (w *window) has(m Mark) bool {
	if m.Position < w.Start || m.Position > w.End.Position {
		return false
	}
	before := w.before
	if m.Position > w.Start {
		before = w.rows[m.Position-w.Start-1].mark()
	}
	return !m.known() || m == before
}

// append adds the next part of the log to the window. It drops the oldest rows above the limits of a read, but none of
// the next part. It does not modify slices that were returned before.
func (w *window) append(next *window, maxEvents int) {
	w.rows = append(w.rows, next.rows...)
	w.bytes += next.bytes
	w.End, w.Full = next.End, next.Full
	excess := 0 // number of rows to drop
	for left := len(w.rows); left > maxEvents || enoughBytes(w.bytes) && left > len(next.rows); left-- {
		w.bytes -= w.rows[excess].size()
		excess++
	}
	if excess == 0 {
		return
	}
	w.before = w.rows[excess-1].mark()
	w.Start = w.before.Position
	w.rows, w.decoded = w.rows[excess:], max(0, w.decoded-excess)
	w.Events = w.Events[indexFrom(w.Events, w.Start):]
	w.Undecodable = slices.DeleteFunc(slices.Clone(w.Undecodable),
		func(e *UndecodableError) bool { return e.Recorded.LogIndex < int64(w.Start) })
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

// indexFrom returns the index of the first event at or after a position.
func indexFrom(list []events.Recorded, p events.Position) int {
	return sort.Search(len(list), func(i int) bool { return list[i].LogIndex >= int64(p) })
}

// from returns the part of a window from a mark on, up to the first event that cannot be decoded. It keeps the events
// whose stream type is in streamTypes (nil keeps all).
func (w *window) from(start Mark, streamTypes []string) Chunk {
	part := w.Chunk
	part.Start, part.Undecodable = start.Position, nil
	part.Events = w.Events[indexFrom(w.Events, part.Start):]
	for _, bad := range w.Undecodable {
		at := bad.Recorded.LogIndex
		if at < int64(part.Start) || !includes(streamTypes, bad.Recorded.StreamType) {
			continue
		}
		part.Events = part.Events[:indexFrom(part.Events, events.Position(at))]
		part.End, part.Full = start, false
		if at > int64(part.Start) {
			part.End = w.rows[at-1-int64(w.Start)].mark()
		}
		part.Undecodable = []*UndecodableError{bad}
		break
	}
	part.Events = part.Events[:len(part.Events):len(part.Events)]
	part.Read = int(part.End.Position - part.Start)
	if streamTypes != nil {
		part.Events = slices.DeleteFunc(slices.Clone(part.Events),
			func(e events.Recorded) bool { return !includes(streamTypes, e.StreamType) })
	}
	return part
}
