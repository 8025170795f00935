package rebuild

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/projections"
)

var (
	// ErrNotComparable means that the live tables cannot be compared with the log. Reasons: the projection cannot apply
	// an event, an erasure is unfinished, code of another generation wrote the tables, the checkpoint went back, or a
	// table has no primary key.
	ErrNotComparable = errors.New("the tables cannot be compared")
	// ErrMayNotCreate means that this role may not create a schema for the replay, or that the database is read-only, such
	// as a standby.
	ErrMayNotCreate = errors.New("no permission to create a schema")

	errCompared    = errors.New("another process is comparing this projection")
	errInterrupted = errors.New("the replayed tables are gone: the database was restarted: compare again")
	errStructure   = errors.New("the structure of the tables has changed during the comparison: compare again")
	errErased      = fmt.Errorf("%w: an author was erased, and the projection has not applied the erasure yet: compare "+
		"again when `novelgate serve` has run", ErrNotComparable)
	errErasing = fmt.Errorf("%w: an author is being erased: compare again when `novelgate author erase` has ended",
		ErrNotComparable)
)

// Comparison is the result of comparing the live tables of a projection with a replay of the log.
type Comparison struct {
	Name     string          `json:"name"`
	Position events.Position `json:"position"` // of the live tables and the replay: number of events in them
	Events   int             `json:"events"`   // replayed events, also of stream types that the projection does not read

	Tables []TableComparison `json:"tables"`
}

// comparison is one run of Compare.
type comparison struct {
	*rebuild
	end    events.Position // of the log in the snapshot in which the live tables were last read
	result Comparison
}

// maxReplays limits the replays up to the position of the live tables before the snapshot. Each leaves fewer events to
// replay while the snapshot is open.
const maxReplays = 4

// Compare replays the log with the code of the projection into tables of a separate schema and compares these with the
// live ones, row by row, while the live ones are in use. It reads the live tables in one read-only snapshot and replays
// the log exactly up to their position in that snapshot. It fails with ErrNotComparable or ErrMayNotCreate.
func Compare(ctx context.Context, config Config) (Comparison, error) {
	r, err := newRebuild(ctx, config)
	if err != nil {
		return Comparison{}, err
	}
	defer r.pool.Close()
	r.compareSchema = r.Projection.Name() + "_replayed"
	unlock, err := r.lock(ctx)
	if errors.Is(err, ErrUnderWay) {
		return Comparison{}, fmt.Errorf("compare projection %s: %w", r.Projection.Name(), errCompared)
	}
	if err != nil {
		return Comparison{}, err
	}
	defer unlock()
	c := &comparison{rebuild: r, result: Comparison{Name: r.Projection.Name()}}
	if err = c.create(ctx); err == nil {
		err = errors.Join(c.run(ctx), c.drop(ctx))
	}
	switch _, poison := errors.AsType[*PoisonError](err); {
	case poison:
		return Comparison{}, fmt.Errorf("%w: %w", ErrNotComparable, err)
	case errors.Is(err, ErrNotComparable):
		return Comparison{}, err
	case err != nil:
		return Comparison{}, fmt.Errorf("compare projection %s: %w", r.Projection.Name(), err)
	}
	c.result.Events = c.read
	return c.result, nil
}

func (c *comparison) run(ctx context.Context) error {
	for range maxReplays {
		before := c.read
		if err := c.replayToLive(ctx); err != nil {
			return err
		}
		if c.read-before < c.ChunkSize {
			break
		}
	}
	return c.compareAfterErasures(ctx)
}

// SQLSTATEs.
const (
	insufficientPrivilege = "42501"
	readOnlyTransaction   = "25006"
)

// create creates empty tables. It first drops those of a crashed process.
func (c *comparison) create(ctx context.Context) error {
	tables := c.Projection.Tables()
	return pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) (err error) {
		if c.record.structure, err = structureOf(ctx, tx, tables); err != nil {
			return err
		}
		if err := dropSchema(ctx, tx, c.Schema()); err != nil {
			return mayNotCreate(err, readOnlyTransaction)
		}
		if err := createTables(ctx, tx, c.Schema(), tables, unlogged); err != nil {
			return mayNotCreate(err, insufficientPrivilege)
		}
		if err := createIndexes(ctx, tx, c.Schema(), tables); err != nil {
			return err
		}
		return execute(ctx, tx, []string{
			`CREATE UNLOGGED TABLE ` + c.replayedTable() + ` (position bigint NOT NULL)`,
			`INSERT INTO ` + c.replayedTable() + ` VALUES (0)`,
		})
	})
}

// mayNotCreate adds ErrMayNotCreate to an error with this SQLSTATE.
func mayNotCreate(err error, code string) error {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == code {
		return fmt.Errorf("%w: %w", ErrMayNotCreate, err)
	}
	return err
}

// dropTimeout limits the removal of the replayed tables: several gigabytes, maybe on a busy disk.
const dropTimeout = 2 * time.Minute

// drop removes the replayed tables, also after ctx has ended.
func (c *comparison) drop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTimeout)
	defer cancel()
	return dropSchema(ctx, c.pool, c.Schema())
}

// replayedTable is the table with the position of the replayed tables. It is unlogged as they are: a restart of the
// database empties all of them.
func (r *rebuild) replayedTable() string {
	return pgx.Identifier{r.compareSchema, "replayed"}.Sanitize()
}

// replayed returns the position of the replayed tables.
func (r *rebuild) replayed(ctx context.Context, tx pgx.Tx) (position events.Position, err error) {
	err = tx.QueryRow(ctx, `SELECT position FROM `+r.replayedTable()).Scan(&position)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, errInterrupted
	}
	if err != nil {
		return 0, fmt.Errorf("read the position of the replay: %w", err)
	}
	return position, nil
}

func (r *rebuild) queueReplayed(batch *pgx.Batch, position events.Position) {
	batch.Queue(`UPDATE `+r.replayedTable()+` SET position = $1`, position)
}

// replayToLive replays the log up to the current position of the live tables.
func (c *comparison) replayToLive(ctx context.Context) error {
	_, end, err := c.live(ctx, c.pool)
	if err != nil {
		return err
	}
	return c.replay(ctx, end)
}

// compareInSnapshot replays the last events and compares the tables in one snapshot.
func (c *comparison) compareInSnapshot(ctx context.Context) error {
	c.result.Tables = []TableComparison{}
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, c.pool, snapshot, func(live pgx.Tx) error {
		if err := c.replayToSnapshot(ctx, live); err != nil {
			return err
		}
		return c.compareTables(ctx, live)
	})
	if err != nil {
		return err
	}
	return c.checkNoErasureUnderWay(ctx)
}

// replayToSnapshot begins the snapshot in which the live tables are read, and replays exactly up to their position
// there.
func (c *comparison) replayToSnapshot(ctx context.Context, live pgx.Tx) error {
	// Lock before the first SELECT, which takes the snapshot: then no rebuild can exchange the tables after it.
	lock := `LOCK TABLE ` + strings.Join(c.tablesIn("public"), ", ") + ` IN ACCESS SHARE MODE`
	if _, err := live.Exec(ctx, lock); err != nil {
		return fmt.Errorf("lock tables: %w", err)
	}
	structure, err := structureOf(ctx, live, c.Projection.Tables())
	if err != nil {
		return err
	}
	if structure != c.record.structure {
		return errStructure
	}
	if _, err := live.Exec(ctx, `SET LOCAL search_path = public`); err != nil {
		return fmt.Errorf("set search_path: %w", err)
	}
	log, err := eventlog.End(ctx, live)
	if err != nil {
		return err
	}
	c.end = log.Position
	generation, position, err := c.live(ctx, live)
	if err != nil {
		return err
	}
	if generation != c.Projection.Generation() {
		return fmt.Errorf("%w: code of generation %d wrote the tables, and this program has generation %d",
			ErrNotComparable, generation, c.Projection.Generation())
	}
	if position < c.record.position {
		return fmt.Errorf("%w: the checkpoint went back from %d to %d", ErrNotComparable, c.record.position, position)
	}
	if err := c.checkErasuresApplied(ctx, live, position); err != nil {
		return err
	}
	c.result.Position = position
	return c.replay(ctx, position)
}

const liveSQL = `SELECT generation, position FROM projections WHERE name = $1`

// live returns the generation and position of the live tables: the beginning if the projection never ran. An inline
// projection is always at the end of the log.
func (c *comparison) live(ctx context.Context, q database.Querier) (generation int, at events.Position, err error) {
	if projections.IsInline(c.Projection) {
		end, err := eventlog.End(ctx, q)
		return c.Projection.Generation(), end.Position, err
	}
	err = q.QueryRow(ctx, liveSQL, c.Projection.Name()).Scan(&generation, &at)
	if errors.Is(err, pgx.ErrNoRows) {
		return c.Projection.Generation(), 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read checkpoint: %w", err)
	}
	return generation, at, nil
}

// A comparison waits for erasures that are under way or that the projection has not applied yet. While the service
// runs, this takes seconds.
const (
	erasureWait = 10 * time.Second
	erasurePoll = 50 * time.Millisecond
)

// compareAfterErasures compares, and repeats this for up to erasureWait while an erasure may cause a difference.
func (c *comparison) compareAfterErasures(ctx context.Context) error {
	err := c.compareInSnapshot(ctx)
	waiting, cancel := context.WithTimeout(ctx, erasureWait)
	defer cancel()
	for (errors.Is(err, errErased) || errors.Is(err, errErasing)) && eventlog.Sleep(waiting, erasurePoll) {
		err = c.compareInSnapshot(ctx)
	}
	return err
}

// erasedSQL reports whether an author was erased or a comment withdrawn from a position on.
const erasedSQL = `SELECT EXISTS (SELECT FROM events
WHERE log_index >= $1 AND event_type IN ('author.erased.v1', 'post.withdrawn.v1'))`

// checkErasuresApplied fails with errErased when an author was erased after the position of the live tables, which then
// still have personal data that is no longer in the log.
func (c *comparison) checkErasuresApplied(ctx context.Context, live pgx.Tx, end events.Position) error {
	if !c.forgetsAuthors() {
		return nil
	}
	var erased bool
	err := live.QueryRow(ctx, erasedSQL, end).Scan(&erased)
	if err != nil {
		return fmt.Errorf("look for erasures: %w", err)
	}
	if erased {
		return errErased
	}
	return nil
}

// checkNoErasureUnderWay fails with errErasing when tables differ and an erasure was under way in the compared
// snapshot, because an erasure removes personal data from the log before it records its event. The first query finds an
// erasure that is still under way; the second finds the event of one that has ended since the snapshot. In the other
// order, an erasure that ends between the queries would be missed.
func (c *comparison) checkNoErasureUnderWay(ctx context.Context) error {
	differs := slices.ContainsFunc(c.result.Tables, func(t TableComparison) bool { return t.DifferenceCount > 0 })
	if !differs || !c.forgetsAuthors() {
		return nil
	}
	underWay, err := projections.ErasureUnderWay(ctx, c.pool)
	if err != nil {
		return err
	}
	if !underWay {
		if err := c.pool.QueryRow(ctx, erasedSQL, c.end).Scan(&underWay); err != nil {
			return fmt.Errorf("look for erasures: %w", err)
		}
	}
	if underWay {
		return errErasing
	}
	return nil
}

// forgetsAuthors reports whether the projection follows the erasures of authors.
func (c *comparison) forgetsAuthors() bool {
	streams := c.Projection.Streams()
	return streams == nil || slices.Contains(streams, events.AuthorStream)
}
