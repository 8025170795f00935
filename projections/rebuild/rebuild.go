// Package rebuild rebuilds the tables of a projection from the log, beside those in use, and switches to them.
//
// # Steps
//
//	begin    create a schema (such as posts_2) with tables of the same structure as those in public
//	replay   apply the log from its beginning to its end, chunk by chunk
//	switch   one transaction: lock the checkpoint (inline: the log), apply the last events, exchange the tables,
//	         re-create the views, drop the old tables
//
// Every chunk is read, applied and recorded in one transaction, so an interrupted rebuild continues from its record,
// even after kill -9 or a failover.
//
// # Readers
//
// A statement sees the rows of one generation: before the switch commits it reads the old tables, or waits for the
// lock; afterwards the same name means the new ones. Views refer to tables, not to names, so the same transaction
// re-creates them with their owner, grants and comments. The switch waits only briefly for locks and lets all waiting
// statements pass before it tries again, so no statement waits long behind it.
//
// # One builder
//
// One process at a time rebuilds a projection: it holds an advisory lock. The connection that holds the lock may break
// unnoticed, and another process may take over, so each transaction checks that its process is still the recorded
// builder.
//
// # Comparing
//
// Compare builds tables in the same way, compares them with the live ones, and drops them.
//
//	create   create a schema (such as posts_replayed) with tables and indexes; first drop that of a crashed process
//	replay   replay the log up to the position of the live tables; repeat this, because the position moves on
//	snapshot begin a read-only transaction that sees the live tables at one position, and replay exactly up to it.
//	         The new tables need not be read in this snapshot, because no other process writes them
//	compare  compare both tables row by row, in the order of their keys
package rebuild

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/projections"
)

// Connections is the number of connections that a rebuild or a comparison opens: one holds a lock, one replays, and one
// reads what the other must not see.
const Connections = 3

// ChunkSize is the default number of events in one transaction.
const ChunkSize = 10_000

// Reasons why a rebuild does not start or ends early.
var (
	// ErrUnderWay means that another process is rebuilding the projection.
	ErrUnderWay = errors.New("this projection is being rebuilt already")
	// ErrTakenOver means that another process has continued this rebuild, or that the switch is done already.
	ErrTakenOver = errors.New("another process has taken over this rebuild, or it has ended")
	// ErrStructure means that a migration has changed the tables meanwhile. A new rebuild starts again.
	ErrStructure = errors.New("the structure of the tables has changed during the rebuild: rebuild again")

	errNotDue = errors.New("the projection need not be rebuilt any more")
)

// Config configures a rebuild.
type Config struct {
	// Pool provides the configuration of the connections that the rebuild opens. Required.
	Pool *pgxpool.Pool
	// Projection is the projection to rebuild. Required. The switch of an inline one blocks appends for a moment.
	Projection projections.Projection
	// ChunkSize is the number of events in one transaction. Default: ChunkSize.
	ChunkSize int
	// Now is the clock of the throttle, which slows the rebuild down while clients append. Default: no throttle.
	Now func() time.Time
	// Progress is called during the work, by one goroutine at a time. Default: none.
	Progress func(Progress)
	// Logger gets messages for operators. Default: slog.Default.
	Logger *slog.Logger

	isDue func(context.Context) (bool, error) // asked when the projection is locked; nil: it is due
}

// Progress is the progress of a rebuild or a comparison.
type Progress struct {
	Done  events.Position // number of events in the new tables
	Total events.Position // events in the log at the start, at least Done
}

// Result is the result of a rebuild.
type Result struct {
	Name       string `json:"name"`
	Generation int    `json:"generation"`
	Build      int    `json:"build"`   // number in the name of the schema, such as 2 in posts_2
	Resumed    bool   `json:"resumed"` // it continued an interrupted rebuild
	Events     int    `json:"events"`  // read by this process before the switch
}

// rebuild is one run.
type rebuild struct {
	Config
	pool    *pgxpool.Pool // its own connections
	builder uuid.UUID     // this process, in the record
	record  record
	resumed bool
	skipped map[projections.Delivery]bool // events to leave out
	fetch   *eventlog.FetchSize
	paceEnd events.Position // end of the log when the latest chunk was paced
	read    int             // events of this run

	compareSchema string // schema of the tables of a comparison; empty in a rebuild
}

// Run rebuilds a projection and switches to the new tables. When it ends early, with an error or because ctx ended, the
// live tables are unchanged, and the next Run continues if this one has called Progress.
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
	if r.isDue != nil {
		due, err := r.isDue(ctx)
		if err != nil {
			return Result{}, err
		}
		if !due {
			return Result{}, errNotDue
		}
	}
	if err := r.build(ctx); err != nil {
		err = fmt.Errorf("rebuild projection %s: %w", r.Projection.Name(), err)
		if ctx.Err() == nil { // an interruption is no trouble
			r.recordError(ctx, err)
		}
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
	r.report()
	if err := r.replay(ctx, endOfLog); err != nil {
		return err
	}
	return r.switchOver(ctx)
}

func newRebuild(ctx context.Context, config Config) (*rebuild, error) {
	if config.ChunkSize <= 0 {
		config.ChunkSize = ChunkSize
	}
	if config.Progress == nil {
		config.Progress = func(Progress) {}
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	config.Logger = config.Logger.With(slog.String("projection", config.Projection.Name()))
	settings := config.Pool.Config()
	settings.MaxConns = Connections
	settings.ConnConfig.RuntimeParams["application_name"] = "novelgate-rebuild"
	prepare := settings.AfterConnect
	settings.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if prepare != nil {
			if err := prepare(ctx, conn); err != nil {
				return err
			}
		}
		// What a crash loses can be built again.
		if _, err := conn.Exec(ctx, `SET synchronous_commit = off`); err != nil {
			return fmt.Errorf("set synchronous_commit: %w", err)
		}
		return eventlog.SetUpReader(ctx, conn)
	}
	pool, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return nil, fmt.Errorf("open pool to rebuild: %w", err)
	}
	return &rebuild{Config: config, pool: pool, builder: uuid.New(), fetch: eventlog.NewFetchSize(config.ChunkSize)}, nil
}

const (
	tryLockSQL = `SELECT pg_try_advisory_lock(hashtextextended('novelgate rebuild ' || $1, 0))`
	unlockSQL  = `SELECT pg_advisory_unlock(hashtextextended('novelgate rebuild ' || $1, 0))`
)

// unlockTimeout limits the wait for a database that does not answer.
const unlockTimeout = 5 * time.Second

// lock locks the projection against other rebuilds until unlock is called. A comparison has a lock of its own, because
// a projection may be rebuilt and compared at the same time.
func (r *rebuild) lock(ctx context.Context) (unlock func(), err error) {
	conn, err := r.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to rebuild: %w", err)
	}
	purpose := r.Projection.Name()
	if r.compareSchema != "" {
		purpose = r.compareSchema
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
			r.Logger.DebugContext(ctx, "Closing the connection to release the lock of a rebuild", slog.Any("error", err))
			conn.Conn().Close(ctx) //nolint:errcheck // closing releases the lock in any case
		}
	}, nil
}

// Schema returns the schema of the new tables.
func (r *rebuild) Schema() string {
	if r.compareSchema != "" {
		return r.compareSchema
	}
	return r.Projection.Name() + "_" + strconv.Itoa(r.record.build)
}

// tablesIn returns the names of the projection's tables in a schema, with the schema, quoted.
func (r *rebuild) tablesIn(schema string) []string {
	var list []string
	for _, table := range r.Projection.Tables() {
		list = append(list, pgx.Identifier{schema, table}.Sanitize())
	}
	return list
}

// report calls Progress.
func (r *rebuild) report() {
	r.Progress(Progress{Done: r.record.position, Total: max(r.record.total, r.record.position)})
}
