package rebuild

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/events/eventlog"
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
       events_done + coalesce((SELECT sum(g.events) FROM projection_rebuild_ranges AS g WHERE g.name = r.name),
           0)::bigint, events_total
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

	loadedSQL = `SELECT to_transaction_id, to_position, sum(events) OVER ()::bigint FROM projection_rebuild_ranges WHERE name = $1
ORDER BY to_transaction_id DESC, to_position DESC LIMIT 1`
)

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

// loadedPart is how much of the old log is loaded: it is loaded in order.
type loadedPart struct {
	upTo   events.Position
	events int
}

func (r *rebuild) loaded(ctx context.Context) (l loadedPart, err error) {
	err = r.pool.QueryRow(ctx, loadedSQL, r.Projection.Name()).Scan(&l.upTo.TransactionID, &l.upTo.Ordinal, &l.events)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return loadedPart{}, fmt.Errorf("read loaded ranges: %w", err)
	}
	return l, nil
}

// rest returns what of the ranges of the log is not loaded. Of the first one a part may be.
func (l loadedPart) rest(ranges []eventlog.Range) []eventlog.Range {
	for i := range ranges {
		if ranges[i].UpTo.Compare(l.upTo) > 0 {
			ranges[i].After, ranges[i].Count = l.upTo, ranges[i].Count-l.events
			return ranges[i:]
		}
		l.events -= ranges[i].Count
	}
	return nil
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
	if _, err := r.pool.Exec(ctx, errorSQL, r.Projection.Name(), r.builder, eventlog.ErrorText(cause)); err != nil {
		r.Logger.DebugContext(ctx, "The end of a rebuild was not recorded")
	}
}
