package rebase

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"novelgate/events"
)

// obstaclesSQL returns statements that remove obstacles to the move, and statements that restore them. No other session
// sees the tables without them: the tables are locked until the transaction ends, and a rollback undoes everything.
//
// The obstacles are the append-only triggers of log and ledger, which fire even in replication (ENABLE ALWAYS), and
// unique constraints on columns that do not change. Dropping and creating the constraints takes half the time of
// updating their indexes in random order for every moved event, and leaves no dead index entries. events_id_key stays:
// it is an index and not a constraint, and has no entries of comments.
const obstaclesSQL = `SELECT format('ALTER TABLE %s DISABLE TRIGGER %I', tgrelid::regclass, tgname),
       format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', tgrelid::regclass, tgname)
FROM pg_trigger
WHERE tgrelid IN ('events'::regclass, 'ledger_seals'::regclass, 'ledger_state'::regclass) AND NOT tgisinternal
    AND tgenabled = 'A'
UNION ALL
SELECT format('ALTER TABLE events DROP CONSTRAINT %I', conname),
       format('ALTER TABLE events ADD CONSTRAINT %I %s', conname, pg_get_constraintdef(oid))
FROM pg_constraint WHERE conrelid = 'events'::regclass AND contype = 'u'
ORDER BY 1`

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

//go:embed references.sql
var referencesSQL string

var (
	// ErrLost is returned when the number of moved events is not the expected one.
	ErrLost = errors.New("the number of moved events is not the number of events")
	// ErrHalfPosition is returned for a table that stores a transaction id without the position in the transaction.
	ErrHalfPosition = errors.New("a transaction id without a column for the position beside it")
)

// move moves the events and their seals, and translates all references to positions.
func (w *work) move(ctx context.Context) error {
	obstacles, err := collect[struct{ Remove, Restore string }](ctx, w, obstaclesSQL)
	if err != nil {
		return err
	}
	for _, o := range obstacles {
		if err := w.exec(ctx, "prepare the log", o.Remove); err != nil {
			return err
		}
	}
	if err := w.moveEvents(ctx); err != nil {
		return err
	}
	for _, sql := range []string{clearSealsSQL, sealSQL, stateSQL} {
		if err := w.exec(ctx, "move the ledger's seals", sql); err != nil {
			return err
		}
	}
	for _, o := range obstacles {
		if err := w.exec(ctx, "restore the log", o.Restore); err != nil {
			return err
		}
	}
	return w.translateReferences(ctx)
}

// translateReferences translates all references to positions outside of log and ledger.
func (w *work) translateReferences(ctx context.Context) error {
	references, err := collect[struct {
		Name      string
		Translate *string
	}](ctx, w, referencesSQL)
	if err != nil {
		return err
	}
	for _, r := range references {
		if r.Translate == nil {
			return fmt.Errorf("%s is %w", r.Name, ErrHalfPosition)
		}
		if err := w.exec(ctx, "translate "+r.Name, *r.Translate); err != nil {
			return err
		}
	}
	return nil
}

func (w *work) moveEvents(ctx context.Context) error {
	batches, err := collect[struct {
		Last   uint64
		Events int64
	}](ctx, w, batchesSQL, w.BatchEvents)
	if err != nil {
		return err
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

// collect returns the rows of a query as structs.
func collect[T any](ctx context.Context, w *work, sql string, args ...any) ([]T, error) {
	rows, _ := w.tx.Query(ctx, sql, args...) // CollectRows returns its error
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	if err != nil {
		return nil, fmt.Errorf("plan the move: %w", err)
	}
	return list, nil
}
