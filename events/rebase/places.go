package rebase

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

//go:embed places.sql
var placesSQL string

// ErrHalfPlace is returned for a column with a transaction id but without a column with the position.
var ErrHalfPlace = errors.New("a transaction id without a position beside it")

// place is a pair of columns that refers to a position in the log.
type place struct {
	Schema, Table, Transaction string
	Position                   *string
}

// movePlaces translates the references to positions in all tables outside log and ledger, including those of an
// unfinished rebuild.
func (w *work) movePlaces(ctx context.Context) error {
	rows, err := w.tx.Query(ctx, placesSQL)
	if err != nil {
		return fmt.Errorf("find places: %w", err)
	}
	places, err := pgx.CollectRows(rows, pgx.RowToStructByPos[place])
	if err != nil {
		return fmt.Errorf("find places: %w", err)
	}
	for _, p := range places {
		if p.Position == nil {
			return fmt.Errorf("%s.%s.%s is %w", p.Schema, p.Table, p.Transaction, ErrHalfPlace)
		}
		if err := w.exec(ctx, "move the places in "+p.Table, p.moveSQL()); err != nil {
			return err
		}
	}
	return nil
}

// moveSQL translates positions of events. A position between two events becomes that of the earlier one, so that the
// next event after it is the same. A position before the first event, such as 0/0, stays before it.
func (p place) moveSQL() string {
	table := pgx.Identifier{p.Schema, p.Table}.Sanitize()
	transaction, position := pgx.Identifier{p.Transaction}.Sanitize(), pgx.Identifier{*p.Position}.Sanitize()
	return fmt.Sprintf(`UPDATE %[1]s AS t SET %[2]s = '2', %[3]s = coalesce((
    SELECT r.first_position + CASE WHEN r.transaction_id = t.%[2]s THEN least(t.%[3]s, r.events - 1)
        ELSE r.events - 1 END
    FROM log_rebase AS r WHERE r.transaction_id <= t.%[2]s ORDER BY r.transaction_id DESC LIMIT 1), -1)
WHERE t.%[2]s > '2'`, table, transaction, position)
}
