// Package mirror follows the log of another service, its origin, into a database of its own, and verifies every event
// with the ledger of the origin: see docs/mirrors.md.
//
// # Order of the work
//
// A mirror reads the newest checkpoint of its origin, which must be signed with a key from its configuration. It reads
// the next batch of events that the checkpoint covers, encodes their entries, and adds these to its tree in memory. It
// applies the batch only if the signed tree extends this tree: one transaction appends the events and moves the
// mirror's position, the row of the table mirror. So a wrong event is never applied, and the mirror reports the log
// index of the first wrong event.
//
// The mirror is the only writer of its log, so the log has the order of the origin. Projections, views, readers and
// sealer run as on any other log. When the sealer has sealed all events of a checkpoint, the mirror proves from its
// own hash tiles that its tree is the signed one, and stores the checkpoint to serve it. A mirror signs nothing.
//
// # Failure
//
// A batch and the position are written in one transaction, so a crash leaves no gap and no duplicate. Any number of
// replicas may run on one database: a replica that finds the row locked or changed stands by, see eventlog.Follow.
// After an error the mirror starts again from the row. It reads a wrong event again every second, and continues when
// the origin delivers the signed one.
package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/events/ledger"
	"novelgate/events/ledger/audit"
)

// Config configures a Mirror.
type Config struct {
	// Pool must have two connections for the mirror. Required.
	Pool *pgxpool.Pool
	// URL is the public URL of the origin, for status and errors. Required.
	URL string
	// Source reads the history of the origin: an audit.Live or a relay.Source. Required.
	Source audit.Source
	// Bundles has the first events of the history. Default: all events come from Source.
	Bundles audit.Bundles
	// Keys are the public keys of the origin's ledger. One of them must have signed each checkpoint. Required.
	Keys []string
	// Inline queues the writes of the inline projections for the transaction of the append. InlineStreams are the stream
	// types that these projections read: the mirror stops at such an event if it cannot decode it. Required.
	Inline        func(ctx context.Context, batch *pgx.Batch, recorded []events.Recorded) error
	InlineStreams []string
	// Erase erases the personal data that an AuthorErased erases, in the transaction that appends this event. Required.
	Erase func(ctx context.Context, tx pgx.Tx, erased *events.Recorded) error
	// Wake gets a signal after each append. Default: followers read the log once a second.
	Wake *eventlog.Wake
	// Now is the clock. Required.
	Now func() time.Time
	// Logger gets errors. Default: slog.Default.
	Logger *slog.Logger
}

const (
	batchEvents  = 4096                   // maximum number of events in one transaction
	poll         = 200 * time.Millisecond // between reads of the origin's checkpoint, which is signed once a second
	applyTimeout = 5 * time.Minute        // of one transaction, in case the database does not answer
)

// Mirror appends the events of an origin to a database. Create it with New.
type Mirror struct {
	config  Config
	store   *ledger.Store
	follow  eventlog.Follow
	newest  *ledger.Checkpoint // that the origin has delivered
	pending *ledger.Checkpoint // newest checkpoint whose events are all applied; nil when it is served
	seen    ledger.Checkpoint  // newest checkpoint that is stored, as far as is known
	cleared bool               // clearStop has removed the reason of the last stop

	ended  atomic.Bool // Run has returned, for instance because the mirror was promoted; Collect then returns no metrics
	mu     sync.Mutex
	status Status
}

// New returns a mirror; start it with Run.
func New(config Config) *Mirror {
	config.Logger = cmp.Or(config.Logger, slog.Default())
	m := &Mirror{
		config: config, store: ledger.NewStore(config.Pool),
		status: Status{Origin: config.URL},
	}
	m.follow = eventlog.Follow{
		Poll: poll, Logger: config.Logger.With(slog.String("of", "mirror")),
		Position: func(ctx context.Context) (events.Position, error) { // the number of mirrored events serves as position
			at, err := m.load(ctx)
			return events.Position{TransactionID: uint64(at.Size())}, err //nolint:gosec // never negative
		},
	}
	return m
}

// Run mirrors until ctx ends. It logs errors and retries; Status has the reason why the mirror has stopped.
func (m *Mirror) Run(ctx context.Context) {
	m.ended.Store(false)
	defer m.ended.Store(true)
	m.follow.Run(ctx, func(ctx context.Context) (progress bool, err error) {
		progress, err = m.turn(ctx)
		m.reportStop(ctx, err)
		return progress, err
	})
}

// turn mirrors from the stored position on until an error. progress reports whether it applied events.
func (m *Mirror) turn(ctx context.Context) (progress bool, err error) {
	if source, ok := m.config.Source.(interface{ Close() }); ok {
		defer source.Close()
	}
	edge, err := m.resume(ctx)
	if err != nil {
		return false, err
	}
	err = m.follow.Each(ctx, func(ctx context.Context) (eventlog.Span, error) {
		next, more, err := m.step(ctx, edge)
		if err != nil {
			return eventlog.Span{}, err
		}
		read := int(next.Size() - edge.Size())
		progress, edge = progress || read > 0, next
		return eventlog.Span{Read: read, Full: more, Settled: true}, nil
	})
	return progress, err
}

// inBundles reports whether the bundles have the event of a log index.
func (m *Mirror) inBundles(index int64) bool {
	return len(m.config.Bundles) > 0 && index < m.config.Bundles.Size()
}

// source returns the source of the events from log index next on.
func (m *Mirror) source(next int64) audit.Source {
	if m.inBundles(next) {
		return m.config.Bundles
	}
	return m.config.Source
}

// step applies at most one batch, and adopts the pending checkpoint if the sealer has reached it. edge is the right
// edge of the tree of all applied events; step returns the one after the batch, and whether to continue at once.
func (m *Mirror) step(ctx context.Context, edge *ledger.Edge) (next *ledger.Edge, more bool, err error) {
	if err := m.adopt(ctx); err != nil {
		return nil, false, err
	}
	from := m.source(edge.Size())
	c, fresh, err := m.checkpoint(ctx, from, edge)
	if err != nil {
		return nil, false, err
	}
	if err := m.saveSeen(ctx, c); err != nil {
		return nil, false, err
	}
	if next, err = m.advance(ctx, from, edge, c); err != nil {
		return nil, false, err
	}
	if more = c.Tree.N > next.Size(); !more {
		m.pending = &c
	}
	if err := m.clearStop(ctx); err != nil {
		return nil, false, err
	}
	m.changeStatus(func(s *Status) {
		s.Entries, s.OriginEntries, s.Stopped, s.StoppedAt = next.Size(), c.Tree.N, "", nil
		if !more && fresh && !m.inBundles(edge.Size()) {
			s.VerifiedAt = m.config.Now().UTC().Truncate(time.Millisecond)
		}
	})
	return next, more || m.inBundles(edge.Size()), nil // after the bundles, ask the origin at once
}

// advance applies the next batch that a checkpoint covers, and returns the edge after it. If the checkpoint covers no
// further events, it compares the log with the checkpoint.
func (m *Mirror) advance(
	ctx context.Context, from audit.Source, edge *ledger.Edge, c ledger.Checkpoint,
) (*ledger.Edge, error) {
	if c.Tree.N <= edge.Size() {
		return edge, m.compare(ctx, from, edge, c)
	}
	b, err := m.read(ctx, from, edge, c)
	if err != nil {
		return nil, err
	}
	return b.edge, m.apply(ctx, edge, b)
}

// checkpoint returns the newest checkpoint of the origin, verified, and true for fresh. If the origin does not answer
// while the mirror lacks events of the latest known checkpoint, checkpoint returns that one, and false: NATS may still
// deliver the events.
func (m *Mirror) checkpoint(
	ctx context.Context, from audit.Source, edge *ledger.Edge,
) (c ledger.Checkpoint, fresh bool, err error) {
	signed, err := from.Checkpoint(ctx)
	switch {
	case err == nil:
	case m.newest != nil && m.newest.Tree.N > edge.Size() && !m.inBundles(edge.Size()):
		return *m.newest, false, nil
	default:
		return c, false, fmt.Errorf("read the checkpoint of the origin: %w", err)
	}
	if c, err = ledger.OpenCheckpoint(signed, m.config.Keys); err != nil {
		return c, false, &StoppedError{LogIndex: edge.Size(), Reason: err}
	}
	m.newest = &c
	return c, true, nil
}

// adopt stores the pending checkpoint, which is then served, if the sealed tree is the signed one. This proves that
// the stored log is that of the origin.
func (m *Mirror) adopt(ctx context.Context) error {
	if m.pending == nil {
		return nil
	}
	adopted, err := ledger.Adopt(ctx, m.config.Pool, *m.pending, m.config.Keys)
	if errors.Is(err, ledger.ErrForked) {
		return m.rewritten(ctx, m.source(m.pending.Tree.N), *m.pending, err)
	}
	if adopted {
		m.pending = nil
	}
	return err
}

// batch is the next part of the history.
type batch struct {
	rows     []eventlog.Row
	leaves   []tlog.Hash       // of the rows
	edge     *ledger.Edge      // of the tree with these rows
	recorded []events.Recorded // see decode
}

// read reads the next events that a checkpoint covers, and verifies them.
func (m *Mirror) read(ctx context.Context, from audit.Source, edge *ledger.Edge, c ledger.Checkpoint) (*batch, error) {
	first := edge.Size()
	list, err := from.Events(ctx, first, int(min(batchEvents, c.Tree.N-first)), c.Tree.N)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("event of log index %d: %w", first, ledger.ErrNotFound)
	}
	if err == nil {
		err = audit.AddDigests(ctx, from, list, first, c.Tree.N)
	}
	if err != nil {
		return nil, m.missing(ctx, from, edge, err)
	}
	b, err := newBatch(edge, list)
	if err != nil {
		return nil, err
	}
	hashes := audit.Hashes(ctx, from, c.Tree)
	grown := tlog.Tree{N: b.edge.Size(), Hash: b.edge.Root()}
	if err := ledger.Extends(c.Tree, grown, hashes); errors.Is(err, ledger.ErrForked) {
		return nil, m.locate(ctx, from, edge, c, b.leaves)
	} else if err != nil {
		return nil, m.missing(ctx, from, edge, err)
	}
	return b, m.decode(b, first)
}

// newBatch adds the entries of events to the tree with an edge. It fails with a StoppedError at an event that is
// broken, out of order or too large.
func newBatch(edge *ledger.Edge, list []ledger.Event) (b *batch, err error) {
	first := edge.Size()
	b = &batch{rows: make([]eventlog.Row, len(list)), leaves: make([]tlog.Hash, len(list))}
	if b.edge, err = ledger.OpenEdge(first, edge.Nodes()); err != nil {
		return nil, err
	}
	var entry []byte
	for i := range list {
		e, index := &list[i], first+int64(i)
		if e.Broken != nil {
			return nil, &StoppedError{LogIndex: index, Reason: fmt.Errorf("the event cannot be read: %w", e.Broken)}
		}
		if e.LogIndex != ledger.NoLogIndex && e.LogIndex != index {
			return nil, &StoppedError{LogIndex: index, Reason: fmt.Errorf("%w: that of log index %d", errOrder, e.LogIndex)}
		}
		if entry, err = ledger.AppendEntry(entry[:0], &e.Row); err != nil {
			return nil, &StoppedError{LogIndex: index, Reason: err}
		}
		b.rows[i], b.leaves[i] = e.Row, tlog.RecordHash(entry)
		if err := b.edge.Push(b.leaves[i], 0, nil); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// decode decodes the events of a batch for the inline projections. It leaves out undecodable events of other stream
// types: asynchronous projections stop at them, as at the origin.
func (m *Mirror) decode(b *batch, first int64) error {
	inline := map[string]bool{}
	for _, name := range m.config.InlineStreams {
		inline[name] = true
	}
	for i := range b.rows {
		recorded, err := b.rows[i].Decode()
		if err != nil && inline[b.rows[i].StreamType] {
			return &StoppedError{
				LogIndex: first + int64(i),
				Reason:   fmt.Errorf("this version of the program cannot read the event, install that of the origin: %w", err),
			}
		}
		if err == nil {
			recorded.Position.Ordinal = int32(i)
			b.recorded = append(b.recorded, recorded)
		}
	}
	return nil
}
