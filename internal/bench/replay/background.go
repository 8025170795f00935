package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// Background rebuilds a projection again and again. What Stop interrupts, the next one goes on with.
type Background struct {
	stop     context.CancelFunc
	ended    chan error
	begun    chan struct{} // closed when the first one is at work
	now      func() time.Time
	from     time.Time
	events   atomic.Int64
	switches atomic.Int64
	phase    atomic.Value
}

// Work is what a Background has done.
type Work struct {
	Events   int
	Switches int // to new tables
	Phase    string
	Took     time.Duration
}

// StartRebuild returns when the rebuild is at work. An urgent one does not yield to those who append.
func StartRebuild(
	ctx context.Context, pool *pgxpool.Pool, projection projections.Projection, workers int, urgent bool,
	now func() time.Time,
) (*Background, error) {
	running, stop := context.WithCancel(ctx)
	b := &Background{stop: stop, ended: make(chan error, 1), begun: make(chan struct{}), now: now, from: now()}
	config := rebuild.Config{Pool: pool, Projection: projection, Workers: workers, Logger: slog.New(slog.DiscardHandler)}
	if !urgent {
		config.Now = now
	}
	go func() { b.ended <- b.run(running, config) }()
	select {
	case <-b.begun:
		return b, nil
	case err := <-b.ended:
		stop()
		return nil, err
	}
}

func (b *Background) run(ctx context.Context, config rebuild.Config) error {
	begun := sync.OnceFunc(func() { close(b.begun) })
	for {
		last := -1
		config.Progress = func(p rebuild.Progress) {
			if last >= 0 { // what an earlier one had done does not count
				b.events.Add(int64(p.Done - last))
			}
			last = p.Done
			b.phase.Store(p.Phase)
			begun()
		}
		_, err := rebuild.Run(ctx, config)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // stopped
		case err != nil:
			return fmt.Errorf("rebuild in the background: %w", err)
		}
		b.switches.Add(1)
	}
}

// Done returns what was done so far.
func (b *Background) Done() Work {
	phase, _ := b.phase.Load().(string)
	return Work{Events: int(b.events.Load()), Switches: int(b.switches.Load()), Phase: phase, Took: b.now().Sub(b.from)}
}

// Stop ends the rebuild where it is, but for making indexes: an index that is interrupted is made again from the
// beginning.
func (b *Background) Stop() error {
	const pause = 50 * time.Millisecond
	for b.Done().Phase == rebuild.Indexing {
		select {
		case err := <-b.ended:
			return err
		case <-time.After(pause):
		}
	}
	b.stop()
	return <-b.ended
}

var errMixed = errors.New("an answer was not of one generation")

// one discussion, with the table named twice: whichever generation it is, it must be the same one in both places.
const watchSQL = `SELECT count(*), count(*) FILTER (WHERE p.tableoid <> q.tableoid), count(DISTINCT p.tableoid)
FROM posts AS p JOIN posts AS q USING (post_id)
WHERE p.thread_id = (SELECT thread_id FROM threads ORDER BY novel_id LIMIT 1) AND p.root_post_id IS NULL`

// Watch reads a discussion again and again until ctx ends, and returns how often. It fails with the first read that
// fails, that is of two generations, or that misses what an earlier one has shown.
func Watch(ctx context.Context, pool *pgxpool.Pool) (reads int, err error) {
	const pause = 20 * time.Millisecond
	seen := 0
	for {
		var rows, mixed, generations int
		err := pool.QueryRow(ctx, watchSQL).Scan(&rows, &mixed, &generations)
		switch {
		case ctx.Err() != nil:
			return reads, nil //nolint:nilerr // the end
		case err != nil:
			return reads, fmt.Errorf("read while tables are exchanged: %w", err)
		case mixed > 0 || generations > 1 || rows < seen:
			return reads, fmt.Errorf("%w: %d comments after %d, %d generations", errMixed, rows, seen, generations)
		}
		seen = rows
		reads++
		select {
		case <-ctx.Done():
			return reads, nil
		case <-time.After(pause):
		}
	}
}
