package eventlog

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"novelgate/events"
)

// DefaultLimit is the most events in a chunk that a Tail reads, unless NewTail says otherwise.
const DefaultLimit = 4096

// tailParts is how many chunks a Tail keeps.
const tailParts = 2

// All followers of a process wait for the one read of a Tail, so neither it nor the end of its connection may take
// longer than this.
const (
	readTimeout       = 30 * time.Second
	disconnectTimeout = time.Second
)

// Tail reads the newest part of the log once for all followers of a process, over one connection, and keeps the chunks
// that it has read last. That is sound because settled events do not change, and nothing ever appears between two of
// them, while the log is the same one. Followers read at about the same time: whoever comes second waits for the first,
// and finds its chunk.
type Tail struct {
	config  *pgx.ConnConfig
	portion *Portion

	mu    sync.Mutex // held while reading
	conn  *pgx.Conn
	parts []Chunk // of one log, without gaps, oldest first; with the events of all kinds of stream
}

// NewTail returns an empty Tail whose chunks have at most so many events. It connects with this configuration.
func NewTail(config *pgx.ConnConfig, limit int) *Tail {
	if limit <= 0 {
		limit = DefaultLimit
	}
	return &Tail{config: config, portion: NewPortion(limit)}
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
	t.parts = nil
}

// Read returns the settled events of some kinds of stream behind a position of a log; nil stands for all. The chunk
// ends in front of the first of them that cannot be decoded, which it names. It fails with ErrOtherLog if the log is
// another one by now.
func (t *Tail) Read(ctx context.Context, after events.Position, of Identity, streams []string) (Chunk, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.parts {
		part := &t.parts[i]
		if part.Identity == of && after.Compare(part.Start) >= 0 && after.Compare(part.End) < 0 {
			found := part.from(after, streams)
			found.Settled = false // nobody knows what came since, and its signal may have been taken already
			found.Full = found.Full || i < len(t.parts)-1
			return found, nil
		}
	}
	chunk, err := t.read(ctx, after, of)
	if err != nil {
		t.disconnect(ctx)
		return Chunk{}, err
	}
	t.keep(chunk)
	return chunk.from(after, streams), nil
}

func (t *Tail) read(ctx context.Context, after events.Position, of Identity) (chunk Chunk, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if t.conn == nil || t.conn.IsClosed() {
		if t.conn, err = Connect(ctx, t.config); err != nil {
			return Chunk{}, err
		}
	}
	if chunk, err = ReadChunk(ctx, t.conn, after, t.portion, nil); err == nil && chunk.Identity != of {
		err = ErrOtherLog
	}
	return chunk, err
}

// keep keeps a chunk that reaches further than what is kept. What cannot be decoded may be mended, so it is not kept.
func (t *Tail) keep(chunk Chunk) {
	if chunk.Read == 0 || len(chunk.Undecodable) > 0 {
		return
	}
	if n := len(t.parts); n > 0 {
		last := &t.parts[n-1]
		switch {
		case chunk.Identity != last.Identity:
			t.parts = nil
		case chunk.End.Compare(last.End) <= 0:
			return
		case chunk.Start != last.End:
			t.parts = nil
		}
	}
	t.parts = append(t.parts, chunk)
	if excess := len(t.parts) - tailParts; excess > 0 {
		t.parts = slices.Delete(t.parts, 0, excess)
	}
}

// from returns the events of a chunk behind a position, of some kinds of stream, up to the first of them that cannot be
// decoded. The chunk has those of all kinds.
func (c *Chunk) from(after events.Position, streams []string) Chunk {
	first, exact := slices.BinarySearchFunc(c.Events, after,
		func(e events.Recorded, p events.Position) int { return e.Position.Compare(p) })
	if exact {
		first++
	}
	part := *c
	part.Start, part.Undecodable = after, nil
	part.Events = c.Events[first:]
	for _, bad := range c.Undecodable {
		at := bad.Recorded.Position
		if at.Compare(after) <= 0 || !follows(streams, bad.Recorded.StreamType) {
			continue
		}
		end, _ := slices.BinarySearchFunc(part.Events, at,
			func(e events.Recorded, p events.Position) int { return e.Position.Compare(p) })
		part.cut(end)
		part.Undecodable = []*UndecodableError{bad}
		break
	}
	part.Read = len(part.Events)
	if streams != nil {
		part.Events = slices.DeleteFunc(slices.Clone(part.Events),
			func(e events.Recorded) bool { return !follows(streams, e.StreamType) })
	}
	return part
}

// cut leaves the first n events.
func (c *Chunk) cut(n int) {
	c.Events, c.End, c.Full = c.Events[:n:n], c.Start, false
	if n > 0 {
		c.End = c.Events[n-1].Position
	}
}
