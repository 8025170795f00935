package rebase

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// guard is a trigger that prevents changes of the log or the ledger.
type guard struct{ Table, Name string }

// guardsSQL finds the guards: triggers that fire in every session, including replication (ENABLE ALWAYS).
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

// Other sessions never see a disabled guard: the table is locked until the transaction ends, and a rollback undoes it.
func (g guard) disableSQL() string {
	return "ALTER TABLE " + g.Table + " DISABLE TRIGGER " + pgx.Identifier{g.Name}.Sanitize()
}

func (g guard) enableSQL() string {
	return "ALTER TABLE " + g.Table + " ENABLE ALWAYS TRIGGER " + pgx.Identifier{g.Name}.Sanitize()
}

// unique is a unique constraint on columns that the move does not change.
type unique struct{ Name, Definition string }

const uniquesSQL = `SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'events'::regclass AND contype = 'u' ORDER BY 1`

// uniques finds the unique constraints of the log, other than the primary key. Dropping and creating them takes half
// the time of updating their indexes in random order for every moved event, and leaves no dead index entries.
// events_id_key, which is no constraint, stays: it has no entries of comments.
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

// each executes a statement for each item of a list.
func each[T any](ctx context.Context, w *work, list []T, sql func(T) string) error {
	for _, item := range list {
		if err := w.exec(ctx, "change the log", sql(item)); err != nil {
			return err
		}
	}
	return nil
}
