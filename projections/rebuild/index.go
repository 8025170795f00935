package rebuild

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
)

const (
	// $2: how many. The oldest that are left.
	readRestSQL = `SELECT transaction_id, position FROM projection_rebuild_rest WHERE name = $1 ORDER BY transaction_id, position LIMIT $2`

	dropRestSQL = `DELETE FROM projection_rebuild_rest
WHERE name = $1 AND (transaction_id, position) <= ($2, $3) AND EXISTS (SELECT FROM projection_rebuilds WHERE name = $1 AND builder = $4 FOR SHARE)`

	// What was loaded is summed up, and the ranges are not needed any more.
	loadedAllSQL = `UPDATE projection_rebuilds AS r
SET phase = 'following', transaction_id = target_transaction_id, position = target_position,
    events_done = coalesce((SELECT sum(g.events) FROM projection_rebuild_ranges AS g WHERE g.name = r.name), 0)
WHERE r.name = $1 AND r.builder = $2`

	dropRangesSQL = `DELETE FROM projection_rebuild_ranges WHERE name = $1`
)

// index finishes the tables that were loaded.
func (r *rebuild) index(ctx context.Context) error {
	tables := r.Projection.Tables()
	err := r.conn(ctx, func(conn *pgxpool.Conn) (err error) {
		if r.pace.busy() {
			if _, err := conn.Exec(ctx, `SET max_parallel_maintenance_workers = 0`); err != nil {
				return fmt.Errorf("limit processes that make indexes: %w", err)
			}
		}
		if err := createIndexes(ctx, conn.Conn(), r.schema(), tables, true); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, `SET search_path = public; RESET max_parallel_maintenance_workers`); err != nil {
			return fmt.Errorf("reset settings: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	portion := eventlog.NewPortion(chunkSize)
	for more := true; more; {
		err := r.yield(ctx, func() (err error) {
			more, err = r.applyRest(ctx, portion)
			return err
		})
		if err != nil {
			return err
		}
	}
	err = pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, loadedAllSQL, r.Projection.Name(), r.builder)
		if err != nil {
			return fmt.Errorf("record that all is loaded: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return ErrTakenOver
		}
		if _, err := tx.Exec(ctx, dropRangesSQL, r.Projection.Name()); err != nil {
			return fmt.Errorf("forget the ranges: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.record.phase, r.record.position = Following, r.record.target
	r.advance(0)
	return nil
}

// applyRest applies a portion of the events that were left for when all is loaded, the oldest, and reports whether
// there were any.
func (r *rebuild) applyRest(ctx context.Context, portion *eventlog.Portion) (bool, error) {
	rows, err := r.pool.Query(ctx, readRestSQL, r.Projection.Name(), portion.Ask())
	if err != nil {
		return false, fmt.Errorf("read what is left: %w", err)
	}
	positions, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p events.Position, err error) {
		return p, row.Scan(&p.TransactionID, &p.Ordinal)
	})
	if err != nil {
		return false, fmt.Errorf("read what is left: %w", err)
	}
	if len(positions) == 0 {
		return false, nil
	}
	chunk, err := eventlog.ReadAt(ctx, r.pool, positions, portion)
	if err != nil {
		return false, err
	}
	err = r.surely(ctx, &chunk, func(batch []events.Recorded) error {
		return pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
			if err := r.writeTo(ctx, tx); err != nil {
				return err
			}
			if err := r.applyIn(ctx, tx, batch); err != nil {
				return err
			}
			tag, err := tx.Exec(ctx, dropRestSQL, r.Projection.Name(), chunk.End.TransactionID, chunk.End.Ordinal, r.builder)
			if err != nil {
				return fmt.Errorf("record what was applied: %w", err)
			}
			if tag.RowsAffected() == 0 {
				return ErrTakenOver
			}
			return nil
		})
	}, func(tx pgx.Tx, batch []events.Recorded) error { return r.applyIn(ctx, tx, batch) })
	return true, err
}
