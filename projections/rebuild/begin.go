package rebuild

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/projections"
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
	r.resumed = r.mayResume(found, structure)
	if r.resumed {
		if r.resumed, err = r.logHas(ctx, found.position, found.target); err != nil {
			return err
		}
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

// mayResume reports whether what an earlier process has built is a part of what this one would.
func (r *rebuild) mayResume(found *record, structure string) bool {
	if found == nil || found.phase == Finished || found.generation != r.Projection.Generation() ||
		found.structure != structure {
		return false
	}
	_, bulk := r.Projection.(projections.Bulk)
	return bulk || found.phase == Following
}

// logHas reports whether the log, which may have been set back, has events at these positions. The beginning of the log
// is no event.
func (r *rebuild) logHas(ctx context.Context, positions ...events.Position) (bool, error) {
	positions = slices.DeleteFunc(positions, func(p events.Position) bool { return p == events.Position{} })
	found, err := eventlog.ReadAt(ctx, r.pool, positions, eventlog.NewPortion(len(positions)))
	return found.Read == len(positions), err
}

// beginAnew makes empty tables, in the place of those of an earlier attempt.
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
		_, err := tx.Exec(ctx, insertRecordSQL, r.Projection.Name(), rec.build, rec.generation, rec.phase, rec.structure,
			r.builder,
			rec.target.TransactionID, rec.target.Ordinal, rec.total)
		if err != nil {
			return fmt.Errorf("record the rebuild: %w", err)
		}
		if err := createTables(ctx, tx, r.schema(), r.Projection.Tables(), lasting); err != nil || bulk {
			return err
		}
		return createIndexes(ctx, tx, r.schema(), r.Projection.Tables(), false)
	})
}
