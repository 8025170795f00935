package rebuild

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/projections"
)

// Phases of a comparison, as Progress tells them. Its Total is always that of Done.
const (
	Replaying = "replaying"
	Comparing = "comparing"
)

// ErrNotComparable means that there is nothing to compare the live tables with: the log cannot be replayed as it is, or
// other code has written them.
var ErrNotComparable = errors.New("the tables cannot be compared")

// ErrMayNotCreate means that the database does not let this role create a schema to replay into, or is a standby.
var ErrMayNotCreate = errors.New("no permission to create a schema")

var (
	errCompared  = errors.New("another process compares this projection")
	errStructure = errors.New("the structure of the tables has changed meanwhile: compare again")
)

// Comparison says whether the live tables of a projection are what the log leads to.
type Comparison struct {
	Name     string `json:"name"`
	Position string `json:"position"` // in the log, up to which events are in the live tables and were replayed
	// that were replayed: those of the kinds of stream that the projection looks at
	Events int               `json:"events"`
	Tables []TableComparison `json:"tables"`
}

// comparison is one run. Its new tables are thrown away.
type comparison struct {
	*rebuild
	structure string
	position  events.Position // of the new tables
	snapshot  string          // in which the live ones were looked at last
	result    Comparison
}

// approaches is how often the new tables are brought to where the live ones are before the snapshot: each time less is
// left to do while it is open.
const approaches = 4

// Compare replays the log with the projection's own code into tables of a schema of its own, and compares them with the
// live ones, row by row, while those are in use. What they hold is looked at in one read-only snapshot, up to whose
// position in the log the replay goes, so nothing is missed or ahead. It fails with ErrNotComparable. Of the
// configuration Workers and RangeSize are of no use.
func Compare(ctx context.Context, config Config) (Comparison, error) {
	config.Workers = 2 // with the connection of the lock four: one reads and one writes, or both are compared
	r, err := newRebuild(ctx, config)
	if err != nil {
		return Comparison{}, err
	}
	defer r.pool.Close()
	r.scratch = r.Projection.Name() + "_replayed"
	lock, err := r.lock(ctx)
	if errors.Is(err, ErrUnderWay) {
		return Comparison{}, fmt.Errorf("compare projection %s: %w", r.Projection.Name(), errCompared)
	}
	if err != nil {
		return Comparison{}, err
	}
	defer r.unlock(context.WithoutCancel(ctx), lock)
	c := &comparison{rebuild: r, result: Comparison{Name: r.Projection.Name()}}
	if err = c.create(ctx); err == nil {
		err = errors.Join(c.run(ctx), c.drop(context.WithoutCancel(ctx)))
	}
	var poison *PoisonError
	switch {
	case errors.As(err, &poison):
		return Comparison{}, fmt.Errorf("%w: %w", ErrNotComparable, err)
	case errors.Is(err, ErrNotComparable):
		return Comparison{}, err
	case err != nil:
		return Comparison{}, fmt.Errorf("compare projection %s: %w", r.Projection.Name(), err)
	}
	return c.result, nil
}

func (c *comparison) run(ctx context.Context) error {
	for range approaches {
		before := c.result.Events
		if err := c.approach(ctx); err != nil {
			return err
		}
		if c.result.Events-before < chunkSize {
			break
		}
	}
	return c.besideErasures(ctx)
}

const snapshotSQL = `SELECT pg_current_snapshot()::text`

func (c *comparison) inSnapshot(ctx context.Context) error {
	c.result.Tables = []TableComparison{}
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, c.pool, snapshot, func(live pgx.Tx) error {
		if err := c.catchUpWith(ctx, live); err != nil {
			return err
		}
		if err := live.QueryRow(ctx, snapshotSQL).Scan(&c.snapshot); err != nil {
			return fmt.Errorf("read the snapshot: %w", err)
		}
		return c.compareTables(ctx, live)
	})
	if err != nil {
		return err
	}
	return c.wantNoErasureUnderWay(ctx)
}

// SQLSTATEs.
const (
	insufficientPrivilege = "42501"
	readOnlyTransaction   = "25006"
)

// create makes empty tables, in the place of what a process that crashed may have left.
func (c *comparison) create(ctx context.Context) error {
	tables := c.Projection.Tables()
	return pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) (err error) {
		if c.structure, err = structureOf(ctx, tx, tables); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, c.dropSQL()); err != nil {
			return fmt.Errorf("drop schema %s: %w", c.schema(), err)
		}
		err = createTables(ctx, tx, c.schema(), tables, unlogged)
		var pgErr *pgconn.PgError
		if errors.As(err, &pgErr) && (pgErr.Code == insufficientPrivilege || pgErr.Code == readOnlyTransaction) {
			return fmt.Errorf("%w: %w", ErrMayNotCreate, err)
		}
		if err != nil {
			return err
		}
		return createIndexes(ctx, tx, c.schema(), tables, false)
	})
}

func (c *comparison) dropSQL() string {
	return `DROP SCHEMA IF EXISTS ` + pgx.Identifier{c.schema()}.Sanitize() + ` CASCADE`
}

func (c *comparison) drop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, unlockTimeout)
	defer cancel()
	if _, err := c.pool.Exec(ctx, c.dropSQL()); err != nil {
		return fmt.Errorf("drop schema %s: %w", c.schema(), err)
	}
	return nil
}

// approach replays up to where the live tables are now.
func (c *comparison) approach(ctx context.Context) error {
	conn, err := c.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect to replay: %w", err)
	}
	defer conn.Release()
	var end events.Position
	if c.Inline {
		end, err = eventlog.Settled(ctx, conn)
	} else {
		_, end, err = c.checkpoint(ctx, conn)
	}
	if err != nil {
		return err
	}
	return c.replay(ctx, conn, end)
}

// catchUpWith begins the snapshot in which the live tables are looked at, and replays up to exactly where they are in
// it.
func (c *comparison) catchUpWith(ctx context.Context, live pgx.Tx) error {
	// No SELECT before the lock: so the snapshot is a later one, and no rebuild exchanges the tables behind its back.
	if _, err := live.Exec(ctx, `LOCK TABLE `+strings.Join(c.identifiers("public"),
		", ")+` IN ACCESS SHARE MODE`); err != nil {
		return fmt.Errorf("lock tables: %w", err)
	}
	structure, err := structureOf(ctx, live, c.Projection.Tables())
	if err != nil {
		return err
	}
	if structure != c.structure {
		return errStructure
	}
	if _, err := live.Exec(ctx, `SET LOCAL search_path = public`); err != nil {
		return fmt.Errorf("set search_path: %w", err)
	}
	var end events.Position
	if c.Inline {
		// Whoever appends writes these tables in the same transaction: they hold every event that can be seen, settled or
		// not.
		if end, err = eventlog.Last(ctx, live); err != nil {
			return err
		}
	} else {
		var generation int
		if generation, end, err = c.checkpoint(ctx, live); err != nil {
			return err
		}
		if generation != c.Projection.Generation() {
			return fmt.Errorf("%w: code of generation %d has written the tables, and this program has generation %d",
				ErrNotComparable, generation, c.Projection.Generation())
		}
		if end.Compare(c.position) < 0 {
			return fmt.Errorf("%w: the checkpoint went back from %s to %s meanwhile", ErrNotComparable, c.position, end)
		}
		if err := c.wantErasuresApplied(ctx, live, end); err != nil {
			return err
		}
	}
	c.result.Position = end.String()
	return c.replay(ctx, live, end)
}

const liveSQL = `SELECT generation, transaction_id, position FROM projections WHERE name = $1`

// checkpoint returns where the live tables are: at the beginning if nothing has ever written them.
func (c *comparison) checkpoint(ctx context.Context, db database.DB) (generation int, at events.Position, err error) {
	err = db.QueryRow(ctx, liveSQL, c.Projection.Name()).Scan(&generation, &at.TransactionID, &at.Ordinal)
	if errors.Is(err, pgx.ErrNoRows) {
		return c.Projection.Generation(), events.Position{}, nil
	}
	if err != nil {
		return 0, events.Position{}, fmt.Errorf("read checkpoint: %w", err)
	}
	return generation, at, nil
}

// replay applies the events behind those that the new tables hold, up to a position, as q sees the log.
func (c *comparison) replay(ctx context.Context, q database.Querier, upTo events.Position) error {
	// What was skipped is on record by the time at which the live tables are behind it.
	if err := c.loadSkipped(ctx); err != nil {
		return err
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	chunks, ended := make(chan eventlog.Chunk, chunkAhead-1), make(chan error, 1)
	failed := func() error { return <-ended }
	go func() {
		defer close(chunks)
		ended <- c.read(reading, q, eventlog.Range{After: c.position, UpTo: upTo}, chunks)
	}()
	for chunk := range chunks {
		err := c.applyChunk(ctx, &chunk, func(pgx.Tx) error { return nil })
		if err != nil {
			stop()
			_ = failed() // because of stop
			return err
		}
		c.position = chunk.End
		c.result.Events += chunk.Read
		c.Progress(Progress{Phase: Replaying, Done: c.result.Events, Total: c.result.Events})
	}
	return failed()
}

// read reads a range while what came before is applied.
func (c *comparison) read(
	ctx context.Context, q database.Querier, part eventlog.Range, chunks chan<- eventlog.Chunk,
) error {
	portion := eventlog.NewPortion(chunkSize)
	for part.After.Compare(part.UpTo) < 0 {
		chunk, err := eventlog.ReadFirst(ctx, q, part, portion, projections.Streams(c.Projection))
		if err != nil {
			return err
		}
		select {
		case chunks <- chunk:
		case <-ctx.Done():
			return ctx.Err()
		}
		part.After = chunk.End
	}
	return nil
}
