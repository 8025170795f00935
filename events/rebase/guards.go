package rebase

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// guard is a trigger that keeps the log or the ledger from being changed.
type guard struct{ Table, Name string }

// guardsSQL finds the guards: triggers that fire in every session, also in one that replicates.
const guardsSQL = `SELECT tgrelid::regclass::text, tgname FROM pg_trigger
WHERE tgrelid IN ('events'::regclass, 'ledger_seals'::regclass, 'ledger_state'::regclass) AND NOT tgisinternal
    AND tgenabled = 'A'
ORDER BY 1, 2`

func (w *work) guards(ctx context.Context) ([]guard, error) {
	rows, err := w.tx.Query(ctx, guardsSQL)
	if err != nil {
		return nil, fmt.Errorf("find guards: %w", err)
	}
	guards, err := pgx.CollectRows(rows, pgx.RowToStructByPos[guard])
	if err != nil {
		return nil, fmt.Errorf("find guards: %w", err)
	}
	return guards, nil
}

// Nobody else sees these two: the table is locked until the transaction ends, and without its commit they never
// happened.
func (g guard) disableSQL() string {
	return "ALTER TABLE " + g.Table + " DISABLE TRIGGER " + pgx.Identifier{g.Name}.Sanitize()
}

func (g guard) enableSQL() string {
	return "ALTER TABLE " + g.Table + " ENABLE ALWAYS TRIGGER " + pgx.Identifier{g.Name}.Sanitize()
}

// unique is a constraint that the move does not touch.
type unique struct{ Name, Definition string }

const uniquesSQL = `SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'events'::regclass AND contype = 'u' ORDER BY 1`

// uniques finds the unique constraints of the log, other than the primary key. To drop them and make them anew takes
// half the time of entering every event that moves into their indexes, in no order, and leaves no old entries behind.
func (w *work) uniques(ctx context.Context) ([]unique, error) {
	rows, err := w.tx.Query(ctx, uniquesSQL)
	if err != nil {
		return nil, fmt.Errorf("find constraints: %w", err)
	}
	uniques, err := pgx.CollectRows(rows, pgx.RowToStructByPos[unique])
	if err != nil {
		return nil, fmt.Errorf("find constraints: %w", err)
	}
	return uniques, nil
}

func (u unique) dropSQL() string {
	return "ALTER TABLE events DROP CONSTRAINT " + pgx.Identifier{u.Name}.Sanitize()
}

func (u unique) addSQL() string {
	return "ALTER TABLE events ADD CONSTRAINT " + pgx.Identifier{u.Name}.Sanitize() + " " + u.Definition
}

// each carries out one statement for each of a list.
func each[T any](ctx context.Context, w *work, list []T, sql func(T) string) error {
	for _, item := range list {
		if err := w.exec(ctx, "change the log", sql(item)); err != nil {
			return err
		}
	}
	return nil
}
