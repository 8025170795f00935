package projections

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/inorder"
)

// bulkWriters copy rows in side by side: each keeps one process of the database busy.
const bulkWriters = 2

// chunkLockTimeout ends waits that the database does not know to be circular: one chunk waits for another in this
// process.
const chunkLockTimeout = 10 * time.Second

// loadedChunk is a chunk of which all that merely adds rows has become those. They are copied in, which costs less than
// applying events. Where rows are in the way that fails, as attempt would not: Apply knows what to do about them.
type loadedChunk struct {
	eventlog.Chunk
	rows   []Rows
	rest   []events.Recorded // to apply
	failed error             // there are no rows
}

// loadAhead makes rows of a chunk while the receiver still writes those of the ones before.
func loadAhead(ctx context.Context, projection Projection, chunks <-chan eventlog.Chunk) <-chan loadedChunk {
	loaded := make(chan loadedChunk)
	go func() {
		defer close(loaded)
		var loader Loader
		if bulk, ok := projection.(Bulk); ok {
			loader = bulk.NewLoader()
		}
		for chunk := range chunks {
			l := loadedChunk{Chunk: chunk, rest: chunk.Events}
			if loader != nil {
				l.rows, l.rest, l.failed = Load(loader, chunk.Events)
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

// writeChunks writes chunks, each in a transaction of its own. They are copied side by side and committed in order; one
// that fails takes those behind it down. It returns when all have ended.
func (f *follower) writeChunks(ctx context.Context, chunks <-chan loadedChunk) error {
	// A transaction that has begun is finished even if the subscription closes.
	group, working := errgroup.WithContext(context.WithoutCancel(ctx))
	slots := make(chan struct{}, writersOf(f.projection))
	var line inorder.Line
	for chunk := range chunks {
		slots <- struct{}{}
		if working.Err() != nil {
			break
		}
		if len(chunk.Undecodable) > 0 || chunk.failed != nil {
			f.inTrouble(chunk.End)
			break
		}
		turn := line.Next()
		// In order, so that none waits for a lock behind somebody who waits for one that comes later.
		conn, err := f.beginChunk(working)
		group.Go(func() error {
			defer func() { <-slots }()
			if err == nil {
				err = f.writeChunk(working, conn, &chunk, turn)
			}
			if err != nil {
				if turn.Await(working) == nil { // else one before it is in trouble
					f.inTrouble(chunk.End)
				}
				return err
			}
			f.position = chunk.End
			turn.Pass()
			return nil
		})
	}
	return group.Wait()
}

func writersOf(projection Projection) int {
	if _, ok := projection.(Bulk); ok {
		return bulkWriters
	}
	return 1
}

// beginChunk begins a transaction that may write to the tables.
func (f *follower) beginChunk(ctx context.Context) (*pgxpool.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	conn, err := f.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("acquire connection: %w", err)
	}
	tables := make([]string, len(f.projection.Tables()))
	for i, table := range f.projection.Tables() {
		tables[i] = pgx.Identifier{"public", table}.Sanitize()
	}
	var begin pgx.Batch
	begin.Queue("begin")
	begin.Queue("SET LOCAL lock_timeout = " + strconv.Itoa(int(chunkLockTimeout.Milliseconds())))
	begin.Queue(announceChunkSQL, f.projection.Name())
	begin.Queue("LOCK TABLE " + strings.Join(tables, ", ") + " IN ROW EXCLUSIVE MODE")
	if err := conn.SendBatch(ctx, &begin).Close(); err != nil {
		release(ctx, conn)
		return nil, fmt.Errorf("begin to write: %w", err)
	}
	return conn, nil
}

// writeChunk ends the transaction of beginChunk. Rows are copied ahead of its turn; the rest may depend on what the
// chunks before have written.
func (f *follower) writeChunk(ctx context.Context, conn *pgxpool.Conn, chunk *loadedChunk, turn inorder.Turn) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	defer release(ctx, conn)
	writes, err := queueWrites(ctx, f.projection, chunk.rest, chunk.End)
	if err != nil {
		return err
	}
	if err := CopyIn(ctx, conn, "public", chunk.rows); err != nil {
		return err
	}
	if err := turn.Await(ctx); err != nil {
		return err
	}
	if err := lockAt(ctx, conn, lockCheckpointSQL, f.projection, chunk.Identity, chunk.Start); err != nil {
		return err
	}
	if err := conn.SendBatch(ctx, writes).Close(); err != nil {
		return fmt.Errorf("apply the rest of a chunk: %w", err)
	}
	return nil
}
