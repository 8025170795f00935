package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/rebase"
)

type eventsRebase struct{ CommonFlags }

// Help is shown by --help.
func (*eventsRebase) Help() string {
	return `The history is ordered by transaction ids, which belong to one PostgreSQL cluster. After pg_restore into
another cluster, serve refuses to start, and this command makes the history readable there. Stop every replica
first.

The move is one transaction: if it is interrupted, nothing changes. Before and after, it hashes all sealed events and
compares them with the ledger. No entry, checkpoint or proof changes. It needs disk space for a second copy of the
table of events and its indexes. It refuses a history that is readable already.`
}

// vacuumLogSQL marks the rows of the main tables that were rewritten as visible to all transactions, and frees the
// space of the old ones. Autovacuum does the same with the other tables.
const vacuumLogSQL = `VACUUM (ANALYZE) events, ledger_seals, ledger_state, projections, authors`

// Run rebases the log. It starts the embedded database if necessary.
func (c *eventsRebase) Run(ctx context.Context, out *output, now clock, open *resources) error {
	if err := c.start(ctx, out.streams, open); err != nil {
		return err
	}
	return c.withAccessLog(ctx, "rebase", map[string]string{}, func(pool *pgxpool.Pool) (int64, error) {
		report, err := rebaseLog(ctx, out.streams, now, pool)
		if err != nil {
			return 0, err
		}
		if _, err := pool.Exec(ctx, vacuumLogSQL); err != nil {
			fmt.Fprintln(out.stderr, "The history is in order. The final vacuum failed; autovacuum will do its work later:", err)
		}
		return 0, out.print(report, func() { out.table(rebaseRows(report)) }) // no event is shown
	})
}

// rebaseLog rebases the log over a single connection. rebase.Run refuses to start while Novelgate has any other
// connection to the database, even an idle one of this pool.
func rebaseLog(ctx context.Context, s streams, now clock, pool *pgxpool.Pool) (*rebase.Report, error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	defer conn.Release()
	progress := &progressDisplay{streams: s, now: now, unit: "events"}
	defer progress.end()
	return rebase.Run(ctx, rebase.Config{Conn: conn.Conn(), Now: now, Progress: progress.show})
}

func rebaseRows(r *rebase.Report) [][]any {
	rows := [][]any{
		{"REBASE", "the history is in order on this cluster"},
		{"events", fmt.Sprintf("%d, of which %d have another position now", r.Events, r.Moved)},
		{"sealed", fmt.Sprintf("%d, hashed before and after", r.Sealed)},
	}
	if r.Sealed > 0 {
		rows = append(rows, []any{"root before", r.RootBefore}, []any{"root after", r.RootAfter})
	}
	return append(rows,
		[]any{"took", fmt.Sprintf("%.1f s, %.0f events/s", r.Seconds, float64(r.Events)/max(r.Seconds, 0.001))})
}
