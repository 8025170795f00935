package rebuild

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/eventlog"
	"novelgate/projections"
)

// DefaultRangeSize is how many events a worker loads in one transaction.
const DefaultRangeSize = 10_000

// Phases of a rebuild, as recorded.
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
	// Pool is configured to connect to the database. The rebuild opens connections of its own, Workers + 3. Required.
	Pool *pgxpool.Pool
	// Projection is the code that builds. Required.
	Projection projections.Projection
	// Inline says that the projection is written in the transaction that appends: the switch holds appends for a moment.
	Inline bool
	// Workers load the log. Default: one for each processor and one more, as each of them waits for the database at times.
	Workers int
	// RangeSize is how many events a worker loads in one transaction. Default: DefaultRangeSize.
	RangeSize int
	// Now is the clock by which the rebuild yields to others while they append: fewer workers, each of which rests two
	// thirds of the time. Default: it does not yield.
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

// rebuild is one run.
type rebuild struct {
	Config
	pool    *pgxpool.Pool // its own connections
	builder uuid.UUID
	record  record
	resumed bool
	skipped map[projections.Delivery]bool
	pace    pace
	tail    *eventlog.Portion // that the switch itself applies at most
	scratch string            // schema of tables that are only compared; empty in a rebuild

	mu         sync.Mutex
	identity   eventlog.Identity // of the log that it reads
	done, read int
}

// Run rebuilds a projection and switches to the new tables. When it ends early, with an error or because ctx ended, the
// live tables are what they were, and the next Run goes on where this one ended.
func Run(ctx context.Context, config Config) (Result, error) {
	r, err := newRebuild(ctx, config)
	if err != nil {
		return Result{}, err
	}
	defer r.pool.Close()
	lock, err := r.lock(ctx)
	if err != nil {
		return Result{}, err
	}
	defer r.unlock(context.WithoutCancel(ctx), lock)
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
	if err := r.loadSkipped(ctx); err != nil {
		return err
	}
	if bulk, ok := r.Projection.(projections.Bulk); ok && r.record.phase == Loading {
		if err := r.load(ctx, bulk); err != nil {
			return err
		}
	}
	if r.record.phase == Indexing {
		if err := r.index(ctx); err != nil {
			return err
		}
	}
	if err := r.follow(ctx); err != nil {
		return err
	}
	return r.switchOver(ctx)
}

func newRebuild(ctx context.Context, config Config) (*rebuild, error) {
	if config.Workers <= 0 {
		config.Workers = runtime.GOMAXPROCS(0) + 1
	}
	if config.RangeSize <= 0 {
		config.RangeSize = DefaultRangeSize
	}
	if config.Progress == nil {
		config.Progress = func(Progress) {}
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	config.Logger = config.Logger.With(slog.String("projection", config.Projection.Name()))
	settings := config.Pool.Config()
	settings.MaxConns = int32(config.Workers) + 2 //nolint:gosec // a handful; reading ahead has one more
	settings.ConnConfig.RuntimeParams["application_name"] = "novelgate-rebuild"
	prepare := settings.AfterConnect
	r := &rebuild{Config: config, builder: uuid.New(), pace: pace{now: config.Now}, tail: eventlog.NewPortion(tailSize)}
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
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.identity == (eventlog.Identity{}) {
		r.identity = identity
	}
	if r.identity != identity {
		return eventlog.ErrOtherLog
	}
	return nil
}

const tryLockSQL = `SELECT pg_try_advisory_lock(hashtextextended('novelgate rebuild ' || $1, 0))`

const unlockSQL = `SELECT pg_advisory_unlock(hashtextextended('novelgate rebuild ' || $1, 0))`

// unlockTimeout bounds the goodbye to a database that has gone silent.
const unlockTimeout = 5 * time.Second

// lock makes this process the only one that rebuilds the projection, until the connection is closed.
func (r *rebuild) lock(ctx context.Context) (*pgxpool.Conn, error) {
	conn, err := r.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to rebuild: %w", err)
	}
	var locked bool
	err = conn.QueryRow(ctx, tryLockSQL, r.purpose()).Scan(&locked)
	if err == nil && !locked {
		err = ErrUnderWay
	}
	if err != nil {
		conn.Release()
		return nil, fmt.Errorf("lock projection %s: %w", r.Projection.Name(), err)
	}
	return conn, nil
}

// unlock frees the lock. A connection that does not answer is closed, which frees it a moment later.
func (r *rebuild) unlock(ctx context.Context, lock *pgxpool.Conn) {
	defer lock.Release()
	ctx, cancel := context.WithTimeout(ctx, unlockTimeout)
	defer cancel()
	if _, err := lock.Exec(ctx, unlockSQL, r.purpose()); err != nil {
		r.Logger.DebugContext(ctx, "The lock of a rebuild goes with its connection", slog.Any("error", err))
		lock.Conn().Close(ctx) //nolint:errcheck // there is nothing to lose
	}
}

// schema is where the new tables are built.
func (r *rebuild) schema() string {
	if r.scratch != "" {
		return r.scratch
	}
	return r.Projection.Name() + "_" + strconv.Itoa(r.record.build)
}

// purpose is what the lock is for: a projection may be rebuilt and compared at the same time.
func (r *rebuild) purpose() string {
	if r.scratch != "" {
		return r.scratch
	}
	return r.Projection.Name()
}

// advance reports that so many events more are done.
func (r *rebuild) advance(events int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done += events
	r.read += events
	r.Progress(Progress{Phase: r.record.phase, Done: r.done, Total: max(r.record.total, r.done)})
}
