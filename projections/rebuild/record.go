package rebuild

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/projections"
)

// record is the row of projection_rebuilds.
type record struct {
	build, generation int
	phase, structure  string
	position, target  events.Position
	done, total       int
}

const (
	readRecordSQL = `SELECT build, generation, phase, structure, transaction_id, position, target_transaction_id, target_position,
       events_done + coalesce((SELECT sum(g.events) FROM projection_rebuild_ranges AS g WHERE g.name = r.name), 0)::bigint, events_total
FROM projection_rebuilds AS r WHERE name = $1`

	takeOverSQL = `UPDATE projection_rebuilds SET builder = $2, error = NULL WHERE name = $1`

	forgetSQL = `DELETE FROM projection_rebuilds WHERE name = $1`

	// $9: events in the log.
	insertRecordSQL = `INSERT INTO projection_rebuilds (name, build, generation, phase, structure, builder, transaction_id, position,
    target_transaction_id, target_position, events_done, events_total, started_at)
VALUES ($1, $2, $3, $4, $5, $6, '0', 0, $7, $8, 0, $9, statement_timestamp())`

	countEventsSQL = `SELECT count(*) FROM events`

	// Only the builder on record may move on. $3, $4: position, $5: events more.
	saveSQL = `UPDATE projection_rebuilds SET transaction_id = $3, position = $4, events_done = events_done + $5 WHERE name = $1 AND builder = $2`

	enterSQL = `UPDATE projection_rebuilds SET phase = $3 WHERE name = $1 AND builder = $2`

	errorSQL = `UPDATE projection_rebuilds SET error = $3 WHERE name = $1 AND builder = $2`

	loadedSQL = `SELECT to_transaction_id, to_position, events FROM projection_rebuild_ranges WHERE name = $1`
)

// begin goes on with a rebuild that was interrupted, or begins a new one.
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
	if r.resumed, err = r.mayResume(ctx, found, structure); err != nil {
		return err
	}
	if r.resumed {
		r.record, r.done = *found, found.done
		if _, err := r.pool.Exec(ctx, takeOverSQL, r.Projection.Name(), r.builder); err != nil {
			return fmt.Errorf("take over: %w", err)
		}
		return nil
	}
	return r.beginAnew(ctx, found, structure)
}

func (r *rebuild) readRecord(ctx context.Context) (*record, error) {
	var f record
	err := r.pool.QueryRow(ctx, readRecordSQL, r.Projection.Name()).Scan(&f.build, &f.generation, &f.phase, &f.structure,
		&f.position.TransactionID, &f.position.Ordinal, &f.target.TransactionID, &f.target.Ordinal, &f.done, &f.total)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, fmt.Errorf("read record: %w", err)
	}
	return &f, nil
}

// mayResume reports whether what an earlier process has built is a part of what this one would.
func (r *rebuild) mayResume(ctx context.Context, found *record, structure string) (bool, error) {
	if found == nil || found.phase == Finished || found.generation != r.Projection.Generation() || found.structure != structure {
		return false, nil
	}
	if found.phase == Following {
		return true, nil
	}
	if _, ok := r.Projection.(projections.Bulk); !ok {
		return false, nil
	}
	if found.phase == Indexing {
		return true, nil
	}
	// Another version of the program may have cut the log into other ranges.
	ranges, err := eventlog.Split(ctx, r.pool, found.target, r.RangeSize)
	if err != nil {
		return false, err
	}
	loaded, err := r.loaded(ctx)
	if err != nil {
		return false, err
	}
	for _, part := range ranges {
		if loaded[part.UpTo] == part.Count {
			delete(loaded, part.UpTo)
		}
	}
	return len(loaded) == 0, nil
}

// loaded returns the ends of the ranges that are loaded, and the events in each.
func (r *rebuild) loaded(ctx context.Context) (map[events.Position]int, error) {
	rows, err := r.pool.Query(ctx, loadedSQL, r.Projection.Name())
	if err != nil {
		return nil, fmt.Errorf("read loaded ranges: %w", err)
	}
	loaded := map[events.Position]int{}
	var end events.Position
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&end.TransactionID, &end.Ordinal, &n}, func() error { loaded[end] = n; return nil }); err != nil {
		return nil, fmt.Errorf("read loaded ranges: %w", err)
	}
	return loaded, nil
}

func (r *rebuild) beginAnew(ctx context.Context, found *record, structure string) (err error) {
	_, bulk := r.Projection.(projections.Bulk)
	r.record = record{build: 2, generation: r.Projection.Generation(), phase: Following, structure: structure}
	if found != nil {
		r.record.build = found.build
		if found.phase == Finished {
			r.record.build++
		}
	}
	if bulk {
		r.record.phase = Loading
		if r.record.target, err = eventlog.Settled(ctx, r.pool); err != nil {
			return err
		}
	}
	if err := r.pool.QueryRow(ctx, countEventsSQL).Scan(&r.record.total); err != nil {
		return fmt.Errorf("count events: %w", err)
	}
	if !r.Inline {
		if err := projections.CreateCheckpoint(ctx, r.pool, r.Projection); err != nil {
			return err
		}
	}
	return pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `DROP SCHEMA IF EXISTS `+pgx.Identifier{r.schema()}.Sanitize()+` CASCADE`); err != nil {
			return fmt.Errorf("drop schema %s: %w", r.schema(), err)
		}
		if _, err := tx.Exec(ctx, forgetSQL, r.Projection.Name()); err != nil {
			return fmt.Errorf("forget the earlier rebuild: %w", err)
		}
		rec := &r.record
		_, err := tx.Exec(ctx, insertRecordSQL, r.Projection.Name(), rec.build, rec.generation, rec.phase, rec.structure, r.builder,
			rec.target.TransactionID, rec.target.Ordinal, rec.total)
		if err != nil {
			return fmt.Errorf("record the rebuild: %w", err)
		}
		if err := createTables(ctx, tx, r.schema(), r.Projection.Tables()); err != nil || bulk {
			return err
		}
		return createIndexes(ctx, tx, r.schema(), r.Projection.Tables(), false)
	})
}

// save records within tx how far the new tables are.
func (r *rebuild) save(ctx context.Context, tx pgx.Tx, end events.Position, events int) error {
	tag, err := tx.Exec(ctx, saveSQL, r.Projection.Name(), r.builder, end.TransactionID, end.Ordinal, events)
	if err != nil {
		return fmt.Errorf("save position: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return ErrTakenOver
	}
	return nil
}

// enter records the next phase.
func (r *rebuild) enter(ctx context.Context, phase string) error {
	tag, err := r.pool.Exec(ctx, enterSQL, r.Projection.Name(), r.builder, phase)
	if err != nil {
		return fmt.Errorf("enter phase %s: %w", phase, err)
	}
	if tag.RowsAffected() == 0 {
		return ErrTakenOver
	}
	r.record.phase = phase
	r.advance(0)
	return nil
}

// recordError leaves for projection list why the rebuild has ended.
func (r *rebuild) recordError(ctx context.Context, cause error) {
	if _, err := r.pool.Exec(ctx, errorSQL, r.Projection.Name(), r.builder, projections.ErrorText(cause)); err != nil {
		r.Logger.DebugContext(ctx, "The end of a rebuild was not recorded")
	}
}
