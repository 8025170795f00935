package projections

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"novelgate/events"
	"novelgate/events/eventlog"
)

// ChunkSize is the number of events in a chunk of a catch-up.
const ChunkSize = 10_000

// bulkWriters is the number of connections that copy rows concurrently: each keeps one process of the database busy.
const bulkWriters = 2

// chunkLockTimeout ends deadlocks that the database cannot detect, because one chunk waits for another in this process.
const chunkLockTimeout = 10 * time.Second

// Target is the destination of a catch-up: the tables of a projection in one schema, and a record of their position.
type Target interface {
	// Schema is the name of the schema.
	Schema() string
	// Begin queues the first statements of a transaction.
	Begin(batch *pgx.Batch)
	// Lock locks the record until the end of the transaction. It fails unless the record is at the start of the chunk.
	Lock(ctx context.Context, conn *pgxpool.Conn, chunk *eventlog.Chunk) error
	// Save queues the statement that moves the record to the end of the chunk.
	Save(batch *pgx.Batch, chunk *eventlog.Chunk)
}

// CatchUp applies large parts of the log to a target, each chunk in one transaction together with its position. Live
// tables that are far behind catch up with it, and a rebuild fills new tables with it.
//
// For a Bulk projection, several connections write chunks concurrently. They copy the rows of events that only add a
// row, which costs less than applying events. Then each connection waits until the previous chunk has committed,
// applies the other events of its chunk, and commits.
type CatchUp struct {
	Pool       *pgxpool.Pool
	Projection Projection
	Target     Target
	// Writers is the number of chunks of a Bulk projection that are written concurrently. Other projections have one.
	Writers int
	// Pace calls work, which writes a chunk, and may pause before or afterwards. Default: no pause.
	Pace func(ctx context.Context, chunk *eventlog.Chunk, work func() error) error
	// Sequential reports whether a chunk must wait until all earlier ones are written and paced. Default: never.
	Sequential func() bool
	// Defer queues the statements that store the events that do more than add a row, to be applied in a later phase.
	// Default: they are applied at once.
	Defer func(batch *pgx.Batch, rest []events.Recorded)
	// Done is called for each written chunk, in log order. Required.
	Done func(chunk *eventlog.Chunk)
}

// ChunkError is the error of the chunk at which a catch-up stopped.
type ChunkError struct {
	End events.Position // of the chunk
	err error
}

func (e *ChunkError) Error() string { return fmt.Sprintf("write the chunk up to %s: %v", e.End, e.err) }
func (e *ChunkError) Unwrap() error { return e.err }

// loadedChunk is a chunk whose events are split: rows of the events that only add a row, to copy, and the rest.
type loadedChunk struct {
	eventlog.Chunk
	rows   []Rows
	rest   []events.Recorded // to apply
	failed error             // an event cannot be decoded or loaded
}

// commitTurn orders the commits of chunks that are written concurrently. committed is closed when the chunk has
// committed; previous is the channel of the previous chunk, nil for the first one. If a chunk fails, committed stays
// open, and the context of the later chunks ends.
type commitTurn struct{ previous, committed chan struct{} }

// await blocks until the previous chunk has committed. It fails when ctx ends first.
func (t commitTurn) await(ctx context.Context) error {
	if t.previous == nil {
		return nil
	}
	select {
	case <-t.previous:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Run writes consecutive chunks of the log. It returns when the channel is closed, or with the ChunkError of the first
// chunk that cannot be written. Then all earlier chunks are written, and nothing of this or later ones. It completes a
// transaction that has begun even if ctx ends.
func (c *CatchUp) Run(ctx context.Context, chunks <-chan eventlog.Chunk) error {
	loading, stop := context.WithCancel(ctx)
	defer stop()
	group, working := errgroup.WithContext(context.WithoutCancel(ctx))
	slots := make(chan struct{}, c.writers())
	var unreadable error
	var previous chan struct{}
	for chunk := range c.load(loading, chunks) {
		slots <- struct{}{}
		if c.Sequential != nil && c.Sequential() {
			awaitOthers(slots)
		}
		if working.Err() != nil {
			break
		}
		if chunk.failed != nil {
			unreadable = &ChunkError{chunk.End, chunk.failed}
			break
		}
		turn := commitTurn{previous, make(chan struct{})}
		previous = turn.committed
		// Begin in order: otherwise a chunk could wait for a lock of a later one, which waits for its turn.
		conn, err := c.begin(working)
		group.Go(func() error {
			defer func() { <-slots }()
			if err == nil {
				err = c.pace(ctx, &chunk.Chunk, func() error { return c.write(working, conn, &chunk, turn) })
			}
			if err == nil {
				return nil
			}
			// An earlier chunk that fails has precedence: await returns its error.
			return cmp.Or(turn.await(working), error(&ChunkError{chunk.End, err}))
		})
	}
	return cmp.Or(group.Wait(), unreadable)
}

// awaitOthers waits until no slot is in use except one, that of the caller. Every slot is one element of slots.
func awaitOthers(slots chan struct{}) {
	for range cap(slots) - 1 {
		slots <- struct{}{}
	}
	for range cap(slots) - 1 {
		<-slots
	}
}

// Write writes one chunk outside Run. With Defer it copies rows, as Run does: Apply needs indexes, which the tables do
// not have yet. Without Defer it applies all events: a copy would fail at a row that already exists, and Apply accepts
// it.
func (c *CatchUp) Write(ctx context.Context, chunk *eventlog.Chunk) error {
	l := loadedChunk{Chunk: *chunk, rest: chunk.Events}
	if bulk, ok := c.Projection.(Bulk); ok && c.Defer != nil {
		if l.rows, l.rest, l.failed = loadRows(bulk.NewLoader(), chunk.Events); l.failed != nil {
			return l.failed
		}
	}
	conn, err := c.begin(ctx)
	if err != nil {
		return err
	}
	return c.write(ctx, conn, &l, commitTurn{committed: make(chan struct{})})
}

func (c *CatchUp) writers() int {
	if _, ok := c.Projection.(Bulk); ok {
		return c.Writers
	}
	return 1
}

func (c *CatchUp) pace(ctx context.Context, chunk *eventlog.Chunk, work func() error) error {
	if c.Pace == nil {
		return work()
	}
	return c.Pace(ctx, chunk, work)
}

// load turns events into rows while the receiver still writes earlier chunks.
func (c *CatchUp) load(ctx context.Context, chunks <-chan eventlog.Chunk) <-chan loadedChunk {
	loaded := make(chan loadedChunk)
	go func() {
		defer close(loaded)
		var loader Loader
		if bulk, ok := c.Projection.(Bulk); ok {
			loader = bulk.NewLoader()
		}
		for chunk := range chunks {
			l := loadedChunk{Chunk: chunk, rest: chunk.Events}
			if loader != nil {
				l.rows, l.rest, l.failed = loadRows(loader, chunk.Events)
				l.Events = nil // free the memory while the chunk waits
			}
			if l.failed == nil && len(chunk.Undecodable) > 0 {
				l.failed = chunk.Undecodable[0]
			}
			select {
			case loaded <- l:
			case <-ctx.Done():
				return
			}
		}
	}()
	return loaded
}

// begin begins a transaction that may write to the tables.
func (c *CatchUp) begin(ctx context.Context) (*pgxpool.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, transactionTimeout)
	defer cancel()
	conn, err := c.Pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("acquire connection: %w", err)
	}
	tables := make([]string, len(c.Projection.Tables()))
	for i, table := range c.Projection.Tables() {
		tables[i] = pgx.Identifier{c.Target.Schema(), table}.Sanitize()
	}
	var begin pgx.Batch
	begin.Queue("begin")
	begin.Queue("SET LOCAL lock_timeout = " + strconv.Itoa(int(chunkLockTimeout.Milliseconds())))
	c.Target.Begin(&begin)
	begin.Queue("LOCK TABLE " + strings.Join(tables, ", ") + " IN ROW EXCLUSIVE MODE")
	if err := conn.SendBatch(ctx, &begin).Close(); err != nil {
		release(ctx, conn)
		return nil, fmt.Errorf("begin to write: %w", err)
	}
	return conn, nil
}

// write writes a chunk in the transaction that begin began, and commits it. It copies rows before its turn, and applies
// the other events in its turn, because they may depend on earlier chunks.
func (c *CatchUp) write(ctx context.Context, conn *pgxpool.Conn, chunk *loadedChunk, turn commitTurn) error {
	ctx, cancel := context.WithTimeout(ctx, transactionTimeout)
	defer cancel()
	defer release(ctx, conn)
	var writes pgx.Batch
	if c.Defer != nil {
		c.Defer(&writes, chunk.rest)
	} else if err := Apply(ctx, c.Projection, &writes, chunk.rest); err != nil {
		return err
	}
	c.Target.Save(&writes, &chunk.Chunk)
	writes.Queue("commit")
	for _, rows := range chunk.rows {
		table := pgx.Identifier{c.Target.Schema(), rows.Table}
		if _, err := conn.CopyFrom(ctx, table, rows.Columns, rows.Values); err != nil {
			return fmt.Errorf("copy into %s: %w", rows.Table, err)
		}
	}
	if err := turn.await(ctx); err != nil {
		return err
	}
	if err := c.Target.Lock(ctx, conn, &chunk.Chunk); err != nil {
		return err
	}
	if err := conn.SendBatch(ctx, &writes).Close(); err != nil {
		return fmt.Errorf("apply %d events: %w", len(chunk.rest), err)
	}
	c.Done(&chunk.Chunk)
	close(turn.committed)
	return nil
}

// catchUp applies large chunks until the projection is near the end of the log or a chunk fails. Then the normal
// batches continue, down to a single event if necessary.
func (f *follower) catchUp(ctx context.Context) {
	conn, err := eventlog.Connect(ctx, f.pool.Config().ConnConfig)
	if err != nil {
		f.logger.DebugContext(ctx, "Catching up did not begin", slog.Any("error", err))
		return
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it only read
	reading, stop := context.WithCancel(ctx)
	defer stop()
	fetch := eventlog.NewFetchSize(ChunkSize)
	chunks, readEnded := eventlog.ReadAhead(reading, f.position,
		func(ctx context.Context, after events.Position) (eventlog.Chunk, error) {
			return eventlog.ReadChunk(ctx, conn, after, fetch, f.projection.Streams())
		})
	c := CatchUp{
		Pool: f.pool, Projection: f.projection, Target: liveTables{f.projection}, Writers: bulkWriters,
		Done: func(chunk *eventlog.Chunk) { f.position = chunk.End },
	}
	err = c.Run(ctx, chunks)
	if stopped, ok := errors.AsType[*ChunkError](err); ok {
		f.smallUpTo = stopped.End
	}
	if err != nil {
		f.logger.DebugContext(ctx, "Catching up was interrupted", slog.Any("error", err))
	}
	stop()
	if err := readEnded(); err != nil && ctx.Err() == nil {
		f.logger.DebugContext(ctx, "Reading ahead was interrupted", slog.Any("error", err))
	}
}

// liveTables are the live tables and the checkpoint of a projection.
type liveTables struct{ projection Projection }

func (liveTables) Schema() string { return "public" }

func (t liveTables) Begin(batch *pgx.Batch) { batch.Queue(lockCatchUpSQL, t.projection.Name()) }

func (t liveTables) Lock(ctx context.Context, conn *pgxpool.Conn, chunk *eventlog.Chunk) error {
	return lockAt(ctx, conn, lockCheckpointSQL, t.projection, chunk.Identity, chunk.Start)
}

func (t liveTables) Save(batch *pgx.Batch, chunk *eventlog.Chunk) {
	batch.Queue(saveCheckpointSQL, t.projection.Name(), chunk.End.TransactionID, chunk.End.Ordinal)
}
