package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/rebase"
)

type eventsRebase struct{ CommonFlags }

// Help is the end of what --help prints; kong calls it.
func (*eventsRebase) Help() string {
	return `The order of the history is that of transaction ids, which belong to a PostgreSQL cluster. After pg_restore into
another cluster, serve refuses to start, and this command puts the history in order for the new one. Stop every replica
first.

It is one transaction: interrupt it, and nothing has changed. Before and after, it hashes everything and compares it
with the ledger, of which no entry, checkpoint or proof changes. It needs room for a second copy of the table of events
and its indexes. It refuses a history that does not need it.`
}

// vacuumLogSQL marks what has moved as visible to all, and frees the room of what was there before.
const vacuumLogSQL = `VACUUM (ANALYZE) events, ledger_seals, ledger_state, projections, authors`

// Run moves the log. An embedded database is started for it when it does not run.
func (c *eventsRebase) Run(ctx context.Context, out *output, now clock, open *resources) error {
	if err := c.start(ctx, out.streams, open); err != nil {
		return err
	}
	return c.readHistory(ctx, "rebase", map[string]string{}, func(pool *pgxpool.Pool) (int64, error) {
		report, err := moveLog(ctx, out.streams, now, pool)
		if err != nil {
			return 0, err
		}
		if _, err := pool.Exec(ctx, vacuumLogSQL); err != nil {
			fmt.Fprintln(out.stderr, "The history is in order. Vacuum, which autovacuum will do in its time, failed:", err)
		}
		return 0, out.print(report, func() { out.table(rebaseRows(report)) }) // it shows no event
	})
}

// moveLog rebases the log on one connection: the others of the pool would count as users of the log.
func moveLog(ctx context.Context, s streams, now clock, pool *pgxpool.Pool) (*rebase.Report, error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	defer conn.Release()
	progress := &phases{streams: s, now: now}
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
