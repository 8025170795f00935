// Package rebuild rebuilds the tables of a projection from the log, beside those in use, and switches to them.
//
// # Steps
//
//	begin    a schema of its own (posts_2) with tables of the same structure as those in public, which migrations made
//	load     projections.Bulk only: the rows that old events add, while the tables have no index
//	index    indexes and constraints, made concurrently; then the old events that do more than add rows
//	follow   the events since
//	switch   one transaction: hold the checkpoint, apply what is left, exchange the tables, repoint the views, drop the
//	         old ones
//
// Events are applied by projections.CatchUp, as those of live tables are. Every writing transaction is short, because
// the oldest one running holds back all readers of the log. Each records how far it got, so a rebuild that was
// interrupted, by kill -9 too, goes on from there.
//
// # Readers
//
// A statement that names a table or a view sees the rows of one generation: before the switch commits it reads the old
// tables, or waits for the lock; afterwards the same name means the new ones. Views are bound to tables, not to names;
// they are replaced in the same transaction and keep their owner, grants and comments. The switch waits only
// briefly for locks and lets all waiting statements pass before it tries again, so no statement waits long behind it.
//
// # Who may build
//
// One process at a time: it holds an advisory lock, and its every transaction checks that it is still the builder on
// record, in case that its connection with the lock has broken unnoticed and another one has taken over.
//
// # Comparing
//
// Compare builds tables in the same way and switches nothing: it compares them with the live ones and drops them.
//
//	create   a schema of its own (posts_replayed) with tables and indexes; what a crash has left there is dropped before
//	replay   the log up to the position of the live tables; repeated, because these go on: each time less is left
//	snapshot a read-only transaction that sees the live tables at one position; the replay goes up to exactly that, as
//	         the transaction sees the log. No other process writes the new tables, so they need not be seen by the same
//	         snapshot
//	compare  both tables row by row, in the order of their keys
package rebuild

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/eventlog"
	"novelgate/projections"
)

// Phases of a rebuild, as recorded. Those of a projection that is not projections.Bulk begin with Following.
const (
	Loading   = "loading"
	Indexing  = "indexing"
	Following = "following"
	Finished  = "finished"
)

// Reasons not to rebuild.
var (
	// ErrUnderWay means that another process is at it.
	ErrUnderWay = errors.New("this projection is being rebuilt already")
	// ErrTakenOver means that another process has gone on with this rebuild.
	ErrTakenOver = errors.New("another process has taken over this rebuild")
	// ErrStructure means that a migration has changed the tables meanwhile. A new rebuild begins again.
	ErrStructure = errors.New("the structure of the tables has changed during the rebuild: rebuild again")
)

// Config says what to rebuild, and how.
type Config struct {
	// Pool is configured to connect to the database. Required.
	Pool *pgxpool.Pool
	// Connections is how many the rebuild opens, at least Workers + 2: one holds a lock, one reads. Default: Workers + 3.
	Connections int
	// Projection is the code that builds. Required.
	Projection projections.Projection
	// Inline says that the projection is written in the transaction that appends: the switch holds appends for a moment.
	Inline bool
	// Workers write side by side; of a projection that is not projections.Bulk there is one. Default: one for each
	// processor and one more, as each of them waits for the database at times.
	Workers int
	// ChunkSize is how many events are written in one transaction. Default: projections.ChunkSize.
	ChunkSize int
	// Now is the clock by which the rebuild yields to others while they append. Default: it does not yield.
	Now func() time.Time
	// Progress is called as the work proceeds, by one goroutine at a time. Default: nothing.
	Progress func(Progress)
	// Logger gets what may interest an operator. Default: slog.Default.
	Logger *slog.Logger
}

// Progress says how far a rebuild is.
type Progress struct {
	Phase string
	Done  int // events
	Total int // events in the log when it began
}

// Result says what a rebuild did.
type Result struct {
	Name       string `json:"name"`
	Generation int    `json:"generation"`
	Build      int    `json:"build"`   // how many times the tables have been built
	Resumed    bool   `json:"resumed"` // went on with one that was interrupted
	Events     int    `json:"events"`  // read by this process
}

// rebuild is one run. It is the projections.Target of its catch-up.
type rebuild struct {
	Config
	pool    *pgxpool.Pool // its own connections
	builder uuid.UUID
	record  record
	resumed bool
	skipped map[projections.Delivery]bool
	appends atomic.Int64        // by others, events a second
	tail    *eventlog.FetchSize // that the switch itself applies at most
	scratch string              // schema of tables that are only compared; empty in a rebuild

	logMu    sync.Mutex        // apart from mu: new connections must not wait for Progress
	identity eventlog.Identity // of the log that it reads

	mu         sync.Mutex
	done, read int // events
}

// Run rebuilds a projection and switches to the new tables. When it ends early, with an error or because ctx ended, the
// live tables are what they were, and the next Run goes on where this one ended.
func Run(ctx context.Context, config Config) (Result, error) {
	r, err := newRebuild(ctx, config)
	if err != nil {
		return Result{}, err
	}
	defer r.pool.Close()
	unlock, err := r.lock(ctx)
	if err != nil {
		return Result{}, err
	}
	defer unlock()
	defer r.watch(ctx)()

	if err := r.build(ctx); err != nil {
		err = fmt.Errorf("rebuild projection %s: %w", r.Projection.Name(), err)
		r.recordError(context.WithoutCancel(ctx), err)
		return Result{}, err
	}
	return Result{
		Name: r.Projection.Name(), Generation: r.Projection.Generation(), Build: r.record.build, Resumed: r.resumed,
		Events: r.read,
	}, nil
}

func (r *rebuild) build(ctx context.Context) error {
	if err := r.begin(ctx); err != nil {
		return err
	}
	r.advance(0)
	if r.record.phase == Loading {
		if err := r.follow(ctx, r.record.target); err != nil {
			return err
		}
		if err := r.enter(ctx, Indexing); err != nil {
			return err
		}
	}
	if r.record.phase == Indexing {
		if err := r.index(ctx); err != nil {
			return err
		}
		if err := r.replay(ctx, r.deferred()); err != nil {
			return err
		}
		if err := r.enter(ctx, Following); err != nil {
			return err
		}
	}
	if err := r.follow(ctx, endOfLog); err != nil {
		return err
	}
	return r.switchOver(ctx)
}

// index makes the indexes that are missing, one after another. No transaction is open meanwhile.
func (r *rebuild) index(ctx context.Context) error {
	conn, err := r.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect to make indexes: %w", err)
	}
	defer conn.Release()
	if r.busy() {
		if _, err := conn.Exec(ctx, `SET max_parallel_maintenance_workers = 0`); err != nil {
			return fmt.Errorf("limit processes that make indexes: %w", err)
		}
	}
	if err := createIndexes(ctx, conn, r.Schema(), r.Projection.Tables(), concurrently); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, `SET search_path = public; RESET max_parallel_maintenance_workers`); err != nil {
		return fmt.Errorf("reset settings: %w", err)
	}
	return nil
}

func newRebuild(ctx context.Context, config Config) (*rebuild, error) {
	if config.Workers <= 0 {
		config.Workers = runtime.GOMAXPROCS(0) + 1
	}
	if _, bulk := config.Projection.(projections.Bulk); !bulk {
		config.Workers = 1
	}
	if config.ChunkSize <= 0 {
		config.ChunkSize = projections.ChunkSize
	}
	if config.Progress == nil {
		config.Progress = func(Progress) {}
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	config.Logger = config.Logger.With(slog.String("projection", config.Projection.Name()))
	settings := config.Pool.Config()
	settings.MaxConns = int32(cmp.Or(config.Connections, config.Workers+3)) //nolint:gosec // a handful
	settings.ConnConfig.RuntimeParams["application_name"] = "novelgate-rebuild"
	prepare := settings.AfterConnect
	r := &rebuild{Config: config, builder: uuid.New(), tail: eventlog.NewFetchSize(tailSize)}
	settings.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if prepare != nil {
			if err := prepare(ctx, conn); err != nil {
				return err
			}
		}
		// What is lost in a crash is built again.
		if _, err := conn.Exec(ctx, `SET synchronous_commit = off`); err != nil {
			return fmt.Errorf("set synchronous_commit: %w", err)
		}
		if err := eventlog.SetUpReader(ctx, conn); err != nil {
			return err
		}
		identity, err := eventlog.Identify(ctx, conn)
		if err != nil {
			return err
		}
		return r.wantLog(identity)
	}
	var err error
	if r.pool, err = pgxpool.NewWithConfig(ctx, settings); err != nil {
		return nil, fmt.Errorf("open pool to rebuild: %w", err)
	}
	return r, nil
}

// wantLog fails with eventlog.ErrOtherLog unless this is the log that the first connection has led to: what was read
// there must not be written elsewhere. The next rebuild goes on from what is on record here.
func (r *rebuild) wantLog(identity eventlog.Identity) error {
	r.logMu.Lock()
	defer r.logMu.Unlock()
	if r.identity == (eventlog.Identity{}) {
		r.identity = identity
	}
	if r.identity != identity {
		return eventlog.ErrOtherLog
	}
	return nil
}

const (
	tryLockSQL = `SELECT pg_try_advisory_lock(hashtextextended('novelgate rebuild ' || $1, 0))`
	unlockSQL  = `SELECT pg_advisory_unlock(hashtextextended('novelgate rebuild ' || $1, 0))`
)

// unlockTimeout bounds the goodbye to a database that has gone silent.
const unlockTimeout = 5 * time.Second

// lock makes this process the only one that rebuilds the projection, until the returned function is called. A
// projection may be rebuilt and compared at the same time.
func (r *rebuild) lock(ctx context.Context) (unlock func(), err error) {
	conn, err := r.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to rebuild: %w", err)
	}
	purpose := r.Projection.Name()
	if r.scratch != "" {
		purpose = r.scratch
	}
	var locked bool
	err = conn.QueryRow(ctx, tryLockSQL, purpose).Scan(&locked)
	if err == nil && !locked {
		err = ErrUnderWay
	}
	if err != nil {
		conn.Release()
		return nil, fmt.Errorf("lock projection %s: %w", r.Projection.Name(), err)
	}
	return func() {
		defer conn.Release()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
		defer cancel()
		if _, err := conn.Exec(ctx, unlockSQL, purpose); err != nil {
			r.Logger.DebugContext(ctx, "The lock of a rebuild goes with its connection", slog.Any("error", err))
			conn.Conn().Close(ctx) //nolint:errcheck // there is nothing to lose
		}
	}, nil
}

// Schema implements projections.Target: it is where the new tables are built.
func (r *rebuild) Schema() string {
	if r.scratch != "" {
		return r.scratch
	}
	return r.Projection.Name() + "_" + strconv.Itoa(r.record.build)
}

// identifiers returns the tables, as they are in a schema.
func (r *rebuild) identifiers(schema string) []string {
	var list []string
	for _, table := range r.Projection.Tables() {
		list = append(list, pgx.Identifier{schema, table}.Sanitize())
	}
	return list
}

// advance adds events to the progress.
func (r *rebuild) advance(events int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done += events
	r.read += events
	r.Progress(Progress{Phase: r.record.phase, Done: r.done, Total: max(r.record.total, r.done)})
}
