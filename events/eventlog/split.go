package eventlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/internal/database"
)

// Range is a part of the log: what lies behind After, up to and including UpTo.
type Range struct {
	After, UpTo events.Position
	Count       int // events in it
}

const settledSQL = `SELECT transaction_id, position FROM events
WHERE transaction_id < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY transaction_id DESC, position DESC LIMIT 1`

// Settled returns the position of the last settled event; the zero position when there is none.
func Settled(ctx context.Context, q database.Querier) (events.Position, error) {
	return position(ctx, q, settledSQL)
}

const lastSQL = `SELECT transaction_id, position FROM events ORDER BY transaction_id DESC, position DESC LIMIT 1`

// Last returns the position of the last event that can be seen, settled or not; the zero position when there is none.
func Last(ctx context.Context, q database.Querier) (events.Position, error) {
	return position(ctx, q, lastSQL)
}

func position(ctx context.Context, q database.Querier, sql string) (events.Position, error) {
	rows, err := q.Query(ctx, sql)
	if err != nil {
		return events.Position{}, fmt.Errorf("find the end of the log: %w", err)
	}
	end, err := pgx.CollectOneRow(rows, func(row pgx.CollectableRow) (p events.Position, err error) {
		return p, row.Scan(&p.TransactionID, &p.Ordinal)
	})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return events.Position{}, fmt.Errorf("find the end of the log: %w", err)
	}
	return end, nil
}

// splitSQL returns every $3rd event up to ($1, $2), and that one. It reads the primary key alone.
const splitSQL = `SELECT transaction_id, position, n
FROM (
    SELECT transaction_id, position, row_number() OVER (ORDER BY transaction_id, position) AS n
    FROM events WHERE (transaction_id, position) <= ($1, $2)
) AS e
WHERE n % $3 = 0 OR (transaction_id, position) = ($1, $2)
ORDER BY transaction_id, position`

// Split cuts the log, from its beginning to a settled event, into ranges of so many events; the last one may be
// smaller. The same log is always cut in the same way.
func Split(ctx context.Context, q database.Querier, upTo events.Position, size int) ([]Range, error) {
	rows, err := q.Query(ctx, splitSQL, upTo.TransactionID, upTo.Ordinal, size)
	if err != nil {
		return nil, fmt.Errorf("split the log: %w", err)
	}
	var ranges []Range
	var r Range
	var n, before int
	_, err = pgx.ForEachRow(rows, []any{&r.UpTo.TransactionID, &r.UpTo.Ordinal, &n}, func() error {
		r.Count = n - before
		ranges = append(ranges, r)
		r.After, before = r.UpTo, n
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("split the log: %w", err)
	}
	return ranges, nil
}
