package rebuild

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/projections"
)

// record is the row of projection_rebuilds.
type record struct {
	build, generation int
	phase, structure  string
	position          events.Position // up to which events are applied; while Indexing, up to which deferred ones are
	target            events.Position // end of Loading
	done, total       int             // events
}

const (
	readRecordSQL = `SELECT build, generation, phase, structure, transaction_id, position, target_transaction_id,
    target_position, events_done, events_total
FROM projection_rebuilds WHERE name = $1`

	takeOverSQL = `UPDATE projection_rebuilds SET builder = $2, error = NULL WHERE name = $1`

	deleteRecordSQL = `DELETE FROM projection_rebuilds WHERE name = $1`

	// $9: events in the log.
	insertRecordSQL = `INSERT INTO projection_rebuilds (name, build, generation, phase, structure, builder, transaction_id, position,
    target_transaction_id, target_position, events_done, events_total, started_at)
VALUES ($1, $2, $3, $4, $5, $6, '0', 0, $7, $8, 0, $9, statement_timestamp())`

	countEventsSQL = `SELECT count(*) FROM events`

	// $2, $3: position, $4: number of further events.
	saveSQL = `UPDATE projection_rebuilds SET transaction_id = $2, position = $3, events_done = events_done + $4 WHERE name = $1`

	enterSQL = `UPDATE projection_rebuilds
SET phase = $3, transaction_id = $4, position = $5, target_transaction_id = $6, target_position = $7
WHERE name = $1 AND builder = $2`

	dropRestSQL = `DELETE FROM projection_rebuild_rest WHERE name = $1`

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
	// Continue only if this process would have built the same tables.
	if found != nil && found.phase != Finished && found.generation == r.Projection.Generation() &&
		found.structure == structure {
		if r.resumed, err = r.logHas(ctx, found.position, found.target); err != nil {
			return err
		}
	}
	if !r.resumed {
		return r.start(ctx, found, structure)
	}
	r.record, r.done = *found, found.done
	if _, err := r.pool.Exec(ctx, takeOverSQL, r.Projection.Name(), r.builder); err != nil {
		return fmt.Errorf("take over: %w", err)
	}
	return nil
}

// logHas reports whether the log, which may have been set back, has events at these positions. The beginning of the log
// counts as present.
func (r *rebuild) logHas(ctx context.Context, positions ...events.Position) (bool, error) {
	slices.SortFunc(positions, events.Position.Compare)
	positions = slices.DeleteFunc(slices.Compact(positions),
		func(p events.Position) bool { return p == events.Position{} })
	found, err := eventlog.ReadAt(ctx, r.pool, positions, eventlog.NewFetchSize(max(1, len(positions))))
	return found.Read == len(positions), err
}

// start starts a new rebuild with empty tables, in place of those of an earlier attempt.
func (r *rebuild) start(ctx context.Context, found *record, structure string) (err error) {
	rec := &r.record
	// Build 1 is the tables that migrations created.
	*rec = record{build: 2, generation: r.Projection.Generation(), phase: Following, structure: structure}
	if found != nil {
		rec.build = found.build
		if found.phase == Finished {
			rec.build++
		}
	}
	if _, bulk := r.Projection.(projections.Bulk); bulk {
		rec.phase = Loading
		if rec.target, err = eventlog.LastSettled(ctx, r.pool); err != nil {
			return err
		}
	}
	if err := r.pool.QueryRow(ctx, countEventsSQL).Scan(&rec.total); err != nil {
		return fmt.Errorf("count events: %w", err)
	}
	if !projections.IsInline(r.Projection) {
		if err := projections.CreateCheckpoint(ctx, r.pool, r.Projection); err != nil {
			return err
		}
	}
	return pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		if err := r.dropBuild(ctx, tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, insertRecordSQL, r.Projection.Name(), rec.build, rec.generation, rec.phase, rec.structure,
			r.builder, rec.target.TransactionID, rec.target.Ordinal, rec.total)
		if err != nil {
			return fmt.Errorf("record the rebuild: %w", err)
		}
		err = createTables(ctx, tx, r.Schema(), r.Projection.Tables(), permanent)
		if err != nil || rec.phase == Loading {
			return err
		}
		return createIndexes(ctx, tx, r.Schema(), r.Projection.Tables(), inTransaction)
	})
}

// dropBuild drops the new tables and the record.
func (r *rebuild) dropBuild(ctx context.Context, tx pgx.Tx) error {
	// Tables first, because a builder that still writes locks the tables before the record.
	if err := dropSchema(ctx, tx, r.Schema()); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, deleteRecordSQL, r.Projection.Name()); err != nil {
		return fmt.Errorf("delete the record of the rebuild: %w", err)
	}
	return nil
}

func (r *rebuild) readRecord(ctx context.Context) (*record, error) {
	var f record
	err := r.pool.QueryRow(ctx, readRecordSQL, r.Projection.Name()).Scan(&f.build, &f.generation, &f.phase, &f.structure,
		&f.position.TransactionID, &f.position.Ordinal, &f.target.TransactionID, &f.target.Ordinal, &f.done, &f.total)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read record: %w", err)
	}
	return &f, nil
}

// enter records the start of Indexing, at the first deferred event, or of Following, at the end of Loading.
func (r *rebuild) enter(ctx context.Context, phase string) error {
	next := r.record
	next.phase, next.position = phase, r.record.target
	if phase == Indexing {
		next.target, next.position = r.record.position, events.Position{}
	}
	err := pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, enterSQL, r.Projection.Name(), r.builder, phase, next.position.TransactionID,
			next.position.Ordinal, next.target.TransactionID, next.target.Ordinal)
		if err == nil && tag.RowsAffected() == 0 {
			err = ErrTakenOver
		}
		if err == nil && phase == Following {
			_, err = tx.Exec(ctx, dropRestSQL, r.Projection.Name())
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("enter phase %s: %w", phase, err)
	}
	r.record = next
	r.advance(0)
	return nil
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
	Name       string `json:"name"`
	Generation int    `json:"generation"` // of the code that built it
	Phase      string `json:"phase"`      // last phase
	EventsDone int    `json:"eventsDone"` // number of events that were read
}

// A killed process no longer holds its advisory lock, but the server may still execute its last statement and hold the
// locks of its transaction.
const discardLockTimeoutSQL = `SET LOCAL lock_timeout = '5s'`

// Discard drops the tables and the record of an unfinished rebuild of a projection, of any generation. The next Run
// starts from the beginning of the log. The live tables stay as they are. It fails with ErrUnderWay while a process
// runs the rebuild, and with ErrNothingToDiscard.
func Discard(ctx context.Context, pool *pgxpool.Pool, projection projections.Projection) (Discarded, error) {
	r, err := newRebuild(ctx, Config{Pool: pool, Projection: projection, Workers: 1})
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
	if err == nil && (found == nil || found.phase == Finished) {
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
	return Discarded{Name: projection.Name(), Generation: found.generation, Phase: found.phase, EventsDone: found.done},
		nil
}
