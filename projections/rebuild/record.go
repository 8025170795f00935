package rebuild

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/projections"
)

// record is the row of projection_rebuilds.
type record struct {
	build, generation int
	structure         string
	position          events.Position // of the new tables
	total             events.Position // end of the log at the start
	isFinished        bool
	hasSchema         bool // the schema of the new tables exists
}

const (
	readRecordSQL = `SELECT build, generation, structure, position, events_total, finished_at IS NOT NULL,
    to_regnamespace(quote_ident(name || '_' || build)) IS NOT NULL
FROM projection_rebuilds WHERE name = $1`

	takeOverSQL = `UPDATE projection_rebuilds SET builder = $2, error = NULL WHERE name = $1`

	deleteRecordSQL = `DELETE FROM projection_rebuilds WHERE name = $1`

	insertRecordSQL = `INSERT INTO projection_rebuilds (name, build, generation, structure, builder, position, events_total, started_at)
VALUES ($1, $2, $3, $4, $5, 0, $6, statement_timestamp())`

	// lockRecordSQL finds nothing if another process is the builder, or after the switch. $2: builder.
	lockRecordSQL = `SELECT position FROM projection_rebuilds
WHERE name = $1 AND builder = $2 AND finished_at IS NULL FOR NO KEY UPDATE`

	saveSQL = `UPDATE projection_rebuilds SET position = $2 WHERE name = $1`

	errorSQL = `UPDATE projection_rebuilds SET error = $3 WHERE name = $1 AND builder = $2`
)

// begin continues an interrupted rebuild, or starts a new one.
func (r *rebuild) begin(ctx context.Context) error {
	tables := r.Projection.Tables()
	if err := refuseUnsupported(ctx, r.pool, tables); err != nil {
		return err
	}
	var structure string
	err := pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) (err error) {
		structure, err = structureOf(ctx, tx, tables)
		return err
	})
	if err != nil {
		return err
	}
	found, err := r.readRecord(ctx)
	if err != nil {
		return err
	}
	// Continue only if this process would have built the same tables, and they exist: a restore of schema public alone
	// brings back only the record, and without them their names mean the live tables.
	r.resumed = found != nil && !found.isFinished && found.hasSchema &&
		found.generation == r.Projection.Generation() && found.structure == structure
	if !r.resumed {
		return r.start(ctx, found, structure)
	}
	r.record = *found
	if _, err := r.pool.Exec(ctx, takeOverSQL, r.Projection.Name(), r.builder); err != nil {
		return fmt.Errorf("take over: %w", err)
	}
	return nil
}

// start starts a new rebuild with empty tables, in place of those of an earlier attempt.
func (r *rebuild) start(ctx context.Context, found *record, structure string) error {
	// Build 1 is the tables that migrations created.
	rec := record{build: 2, generation: r.Projection.Generation(), structure: structure}
	if found != nil {
		rec.build = found.build
		if found.isFinished {
			rec.build++
		}
	}
	end, err := eventlog.End(ctx, r.pool)
	if err != nil {
		return err
	}
	rec.total = end.Position
	r.record = rec
	if !projections.IsInline(r.Projection) {
		if err := projections.CreateCheckpoint(ctx, r.pool, r.Projection); err != nil {
			return err
		}
	}
	return pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		// SwitchOff then waits, and finds the record.
		const keepSQL = `SELECT FROM projections WHERE name = $1 FOR KEY SHARE`
		kept, err := tx.Exec(ctx, keepSQL, r.Projection.Name())
		if err != nil {
			return fmt.Errorf("keep the checkpoint: %w", err)
		}
		if kept.RowsAffected() == 0 && !projections.IsInline(r.Projection) {
			return projections.ErrOff
		}
		if err := r.dropBuild(ctx, tx); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, insertRecordSQL, r.Projection.Name(), rec.build, rec.generation, rec.structure, r.builder,
			rec.total)
		if err != nil {
			return fmt.Errorf("record the rebuild: %w", err)
		}
		if err := createTables(ctx, tx, r.Schema(), r.Projection.Tables(), permanent); err != nil {
			return err
		}
		return createIndexes(ctx, tx, r.Schema(), r.Projection.Tables())
	})
}

// dropBuild deletes the record and drops the new tables.
func (r *rebuild) dropBuild(ctx context.Context, tx pgx.Tx) error {
	// The record first, because a builder that still writes locks the record before the tables.
	if _, err := tx.Exec(ctx, deleteRecordSQL, r.Projection.Name()); err != nil {
		return fmt.Errorf("delete the record of the rebuild: %w", err)
	}
	return dropSchema(ctx, tx, r.Schema())
}

func (r *rebuild) readRecord(ctx context.Context) (*record, error) {
	var f record
	err := r.pool.QueryRow(ctx, readRecordSQL, r.Projection.Name()).Scan(&f.build, &f.generation, &f.structure,
		&f.position, &f.total, &f.isFinished, &f.hasSchema)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read record: %w", err)
	}
	return &f, nil
}

// lockRecord locks the record until the end of the transaction and returns its position. Only the process that the
// record names as builder may write, and only before the switch: afterwards the names mean the live tables.
func (r *rebuild) lockRecord(ctx context.Context, tx pgx.Tx) (position events.Position, err error) {
	if r.compareSchema != "" {
		return r.replayed(ctx, tx)
	}
	err = tx.QueryRow(ctx, lockRecordSQL, r.Projection.Name(), r.builder).Scan(&position)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, ErrTakenOver
	}
	if err != nil {
		return 0, fmt.Errorf("lock record: %w", err)
	}
	return position, nil
}

// queueSave queues the statement that records a position.
func (r *rebuild) queueSave(batch *pgx.Batch, position events.Position) {
	if r.compareSchema != "" {
		r.queueReplayed(batch, position)
		return
	}
	batch.Queue(saveSQL, r.Projection.Name(), position)
}

// recordError stores the error that ended the rebuild, for projection list.
func (r *rebuild) recordError(ctx context.Context, cause error) {
	if _, err := r.pool.Exec(ctx, errorSQL, r.Projection.Name(), r.builder, eventlog.ErrorText(cause)); err != nil {
		r.Logger.DebugContext(ctx, "The end of a rebuild was not recorded")
	}
}

// ErrNothingToDiscard means that the projection has no unfinished rebuild.
var ErrNothingToDiscard = errors.New("there is no unfinished rebuild of this projection")

// Discarded describes a discarded rebuild.
type Discarded struct {
	Name       string          `json:"name"`
	Generation int             `json:"generation"` // of the code that built it
	EventsDone events.Position `json:"eventsDone"` // number of events that were read
}

// A killed process no longer holds its advisory lock, but the server may still execute its last statement and hold the
// locks of its transaction.
const discardLockTimeoutSQL = `SET LOCAL lock_timeout = '5s'`

// Discard drops the tables and the record of an unfinished rebuild of a projection, of any generation. The next Run
// starts from the beginning of the log. The live tables stay as they are. It fails with ErrUnderWay while a process
// runs the rebuild, and with ErrNothingToDiscard.
func Discard(ctx context.Context, pool *pgxpool.Pool, projection projections.Projection) (Discarded, error) {
	r, err := newRebuild(ctx, Config{Pool: pool, Projection: projection})
	if err != nil {
		return Discarded{}, err
	}
	defer r.pool.Close()
	unlock, err := r.lock(ctx)
	if err != nil {
		return Discarded{}, err
	}
	defer unlock()

	found, err := r.readRecord(ctx)
	if err == nil && (found == nil || found.isFinished) {
		err = ErrNothingToDiscard
	}
	if err == nil {
		r.record = *found
		err = pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, discardLockTimeoutSQL); err != nil {
				return fmt.Errorf("set lock_timeout: %w", err)
			}
			return r.dropBuild(ctx, tx)
		})
	}
	if eventlog.IsConflict(err) {
		err = fmt.Errorf("%w: %w", ErrUnderWay, err)
	}
	if err != nil {
		return Discarded{}, fmt.Errorf("discard rebuild of projection %s: %w", projection.Name(), err)
	}
	return Discarded{Name: projection.Name(), Generation: found.generation, EventsDone: found.position}, nil
}
