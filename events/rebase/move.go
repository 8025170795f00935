package rebase

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"novelgate/events"
)

const (
	batchesSQL = `SELECT max(transaction_id), sum(events)::bigint FROM log_rebase WHERE transaction_id > '2'
GROUP BY first_position / $1 ORDER BY 1`

	// moveSQL moves the events of the transactions after $1, up to and including $2.
	moveSQL = `UPDATE events AS e SET transaction_id = '2', position = r.first_position + e.position
FROM log_rebase AS r
WHERE r.transaction_id = e.transaction_id AND r.transaction_id > $1 AND r.transaction_id <= $2
  AND e.transaction_id > $1 AND e.transaction_id <= $2`

	// The one new seal also covers unsealed events. The sealer continues within it, as in any large transaction.
	clearSealsSQL = `TRUNCATE ledger_seals`
	sealSQL       = `INSERT INTO ledger_seals (transaction_id, first_log_index, event_count)
SELECT '2', 0, (SELECT sum(events) FROM log_rebase) FROM ledger_state WHERE tree_size > 0`
	stateSQL = `UPDATE ledger_state SET transaction_id = '2', position = tree_size - 1 WHERE tree_size > 0`
)

// ErrLost is returned when the number of moved events is wrong.
var ErrLost = errors.New("another number of events has moved than there are")

// move moves the events and their seals, and translates all references to positions.
func (w *work) move(ctx context.Context) error {
	guards, err := w.guards(ctx)
	if err != nil {
		return err
	}
	uniques, err := w.uniques(ctx)
	if err != nil {
		return err
	}
	if err := each(ctx, w, guards, guard.disableSQL); err != nil {
		return err
	}
	if err := each(ctx, w, uniques, unique.dropSQL); err != nil {
		return err
	}
	if err := w.moveEvents(ctx); err != nil {
		return err
	}
	if err := each(ctx, w, uniques, unique.addSQL); err != nil {
		return err
	}
	for _, sql := range []string{clearSealsSQL, sealSQL, stateSQL} {
		if err := w.exec(ctx, "move the ledger's seals", sql); err != nil {
			return err
		}
	}
	if err := each(ctx, w, guards, guard.enableSQL); err != nil {
		return err
	}
	return w.movePlaces(ctx)
}

func (w *work) moveEvents(ctx context.Context) error {
	rows, err := w.tx.Query(ctx, batchesSQL, w.BatchEvents)
	if err != nil {
		return fmt.Errorf("cut the log: %w", err)
	}
	type batch struct {
		Last   uint64
		Events int64
	}
	batches, err := pgx.CollectRows(rows, pgx.RowToStructByPos[batch])
	if err != nil {
		return fmt.Errorf("cut the log: %w", err)
	}
	after, done := uint64(events.Frozen), int64(0)
	w.Progress(Moving, done, w.report.Moved)
	for _, b := range batches {
		tag, err := w.tx.Exec(ctx, moveSQL, after, b.Last)
		if err != nil {
			return fmt.Errorf("move events: %w", err)
		}
		if tag.RowsAffected() != b.Events {
			return fmt.Errorf("%w: %d instead of %d", ErrLost, tag.RowsAffected(), b.Events)
		}
		after, done = b.Last, done+b.Events
		w.Progress(Moving, done, w.report.Moved)
	}
	return nil
}
