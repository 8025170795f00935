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

// Chunks of a projection that catches up. The next ones are read and decoded while some are applied.
const (
	ChunkSize  = 10_000
	chunkAhead = 2
)

// bulkWriters copy rows in side by side: each keeps one process of the database busy.
const bulkWriters = 2

// chunkLockTimeout ends waits that the database does not know to be circular: one chunk waits for another in this
// process.
const chunkLockTimeout = 10 * time.Second

// Target is where a catch-up writes: the tables of a projection in one schema, and the record of how far they are.
type Target interface {
	// Schema is the name of the schema.
	Schema() string
	// Begin queues the statements with which a transaction begins.
	Begin(batch *pgx.Batch)
	// Lock holds the record until the end of the transaction. It fails unless the record is where the chunk starts.
	Lock(ctx context.Context, conn *pgxpool.Conn, chunk *eventlog.Chunk) error
	// Save queues the statement that moves the record to the end of the chunk.
	Save(batch *pgx.Batch, chunk *eventlog.Chunk)
}

// CatchUp applies large parts of the log to a target, each chunk in one transaction with the record of it. The live
// tables catch up like this when they are far behind, and a rebuild builds new ones like this.
//
// Several connections write chunks of a Bulk projection side by side. They copy what merely adds rows, which costs less
// than to apply events; then each waits for the one before to commit, applies the rest and commits.
type CatchUp struct {
	Pool       *pgxpool.Pool
	Projection Projection
	Target     Target
	// Writers is how many chunks of a Bulk projection are written side by side. Of others it is one.
	Writers int
	// Pace carries out the work of writing a chunk, and may rest before or afterwards. Default: no rest.
	Pace func(ctx context.Context, chunk *eventlog.Chunk, work func() error) error
	// Alone reports whether a chunk is to wait until those before it are written and paced. Default: it never does.
	Alone func() bool
	// Defer queues statements that keep events for later, those that do more than add rows. Default: they are applied.
	Defer func(batch *pgx.Batch, rest []events.Recorded)
	// Done is told of each chunk that was written, in log order.
	Done func(chunk *eventlog.Chunk)
}

// ChunkError says at which chunk a catch-up has stopped.
type ChunkError struct {
	End events.Position // of the chunk
	err error
}

func (e *ChunkError) Error() string { return fmt.Sprintf("write the chunk up to %s: %v", e.End, e.err) }
func (e *ChunkError) Unwrap() error { return e.err }

// loadedChunk is a chunk whose events, as far as they merely add rows, have become rows. Where a row is in the way,
// copying fails and Apply does not.
type loadedChunk struct {
	eventlog.Chunk
	rows   []Rows
	rest   []events.Recorded // to apply
	failed error             // there are no rows
}

// turn is the place of a chunk among those that are written side by side. Its channel passed is closed when it has
// committed, and stays open when that has failed: the context of the chunks after it has ended then.
type turn struct{ before, passed chan struct{} }

// await blocks until the chunk before has committed, or fails because ctx has ended.
func (t turn) await(ctx context.Context) error {
	if t.before == nil {
		return nil
	}
	select {
	case <-t.before:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Run writes chunks, which follow one another in the log. It returns when the channel is closed, or with the ChunkError
// of the first chunk that cannot be written: those before it are, and nothing of it or after it. A transaction that
// has begun is finished even if ctx ends.
func (c *CatchUp) Run(ctx context.Context, chunks <-chan eventlog.Chunk) error {
	loading, stop := context.WithCancel(ctx)
	defer stop()
	group, working := errgroup.WithContext(context.WithoutCancel(ctx))
	slots := make(chan struct{}, c.writers())
	var unreadable error
	var before chan struct{}
	for chunk := range c.load(loading, chunks) {
		slots <- struct{}{}
		if c.Alone != nil && c.Alone() {
			for range cap(slots) - 1 {
				slots <- struct{}{}
			}
			for range cap(slots) - 1 {
				<-slots
			}
		}
		if working.Err() != nil {
			break
		}
		if len(chunk.Undecodable) > 0 || chunk.failed != nil {
			unreadable = &ChunkError{chunk.End, chunk.failed}
			if chunk.failed == nil {
				unreadable = &ChunkError{chunk.End, chunk.Undecodable[0]}
			}
			break
		}
		turn := turn{before, make(chan struct{})}
		before = turn.passed
		// In order, so that no chunk waits for a lock behind a chunk that comes later: they would wait for each other.
		conn, err := c.begin(working)
		group.Go(func() error {
			defer func() { <-slots }()
			if err == nil {
				err = c.pace(ctx, &chunk.Chunk, func() error { return c.write(working, conn, &chunk, turn) })
			}
			if err != nil {
				return cmp.Or(turn.await(working), error(&ChunkError{chunk.End, err})) // one before it may be in trouble
			}
			return nil
		})
	}
	return cmp.Or(group.Wait(), unreadable)
}

// Write writes one chunk. It copies rows only if it has to: Apply copes with rows that are in the way, but needs
// indexes, without which other events are deferred.
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
	return c.write(ctx, conn, &l, turn{passed: make(chan struct{})})
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

// load makes rows of a chunk while the receiver still writes those of the ones before.
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
				l.Events = nil // while this is written, others are read
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
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
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

// write ends the transaction of begin. Rows are copied ahead of its turn; the rest may depend on what the chunks before
// have written.
func (c *CatchUp) write(ctx context.Context, conn *pgxpool.Conn, chunk *loadedChunk, turn turn) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
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
	for _, of := range chunk.rows {
		if _, err := conn.CopyFrom(ctx, pgx.Identifier{c.Target.Schema(), of.Table}, of.Columns, of.Values); err != nil {
			return fmt.Errorf("copy into %s: %w", of.Table, err)
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
	close(turn.passed)
	return nil
}

// catchUp applies large chunks until the projection has come close to the end of the log, or something is in the way:
// that is left to the next batch, which deals with a single event if it must.
func (f *follower) catchUp(ctx context.Context) {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	chunks, failed := eventlog.ReadAhead(reading, f.pool.Config().ConnConfig, f.position,
		eventlog.AheadConfig{Size: ChunkSize, Chunks: chunkAhead, Streams: f.projection.Streams()})
	c := CatchUp{
		Pool: f.pool, Projection: f.projection, Target: liveTables{f.projection}, Writers: bulkWriters,
		Done: func(chunk *eventlog.Chunk) { f.position = chunk.End },
	}
	err := c.Run(ctx, chunks)
	var stopped *ChunkError
	if errors.As(err, &stopped) {
		f.inTrouble(stopped.End)
	}
	if err != nil {
		f.logger.DebugContext(ctx, "Catching up was interrupted", slog.Any("error", err))
	}
	stop()
	if err := failed(); err != nil && ctx.Err() == nil {
		f.logger.DebugContext(ctx, "Reading ahead was interrupted", slog.Any("error", err))
	}
}

// inTrouble leaves what lies before a position to batches.
func (f *follower) inTrouble(end events.Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trouble = end
}

// liveTables are the tables that are read, with the checkpoint of their projection.
type liveTables struct{ projection Projection }

func (liveTables) Schema() string { return "public" }

func (t liveTables) Begin(batch *pgx.Batch) { batch.Queue(announceChunkSQL, t.projection.Name()) }

func (t liveTables) Lock(ctx context.Context, conn *pgxpool.Conn, chunk *eventlog.Chunk) error {
	return lockAt(ctx, conn, lockCheckpointSQL, t.projection, chunk.Identity, chunk.Start)
}

func (t liveTables) Save(batch *pgx.Batch, chunk *eventlog.Chunk) {
	batch.Queue(saveCheckpointSQL, t.projection.Name(), chunk.End.TransactionID, chunk.End.Ordinal)
}
