package testdb

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const settledSQL = `SELECT coalesce(max(transaction_id) < pg_snapshot_xmin(pg_current_snapshot()), true) FROM events`

// AwaitSettled waits until readers of the log see all that was appended to a database: transactions of other tests on
// the same server hide it for a while. It fails after UntilSettled.
func AwaitSettled(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
},
) error {
	ctx, cancel := context.WithTimeout(ctx, UntilSettled)
	defer cancel()
	for settled := false; !settled; time.Sleep(time.Millisecond) {
		if err := db.QueryRow(ctx, settledSQL).Scan(&settled); err != nil {
			return fmt.Errorf("wait for the log to settle: %w", err)
		}
	}
	return nil
}
