package main

import (
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/rebase"
	projection "novelgate/projections/rebuild"
)

// EventsRebase is `novelgate events rebase`.
type EventsRebase struct {
	DatabaseFlags
	OutputFlags
}

// Help implements kong.HelpProvider.
func (*EventsRebase) Help() string {
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
func (c *EventsRebase) Run(in *invocation) error {
	url, stop, err := c.started(in)
	if err != nil {
		return err
	}
	defer stop()
	return recorded(in, url, "rebase", map[string]string{}, func(pool *pgxpool.Pool) (int64, error) {
		report, err := c.rebase(in, pool)
		if err != nil {
			return 0, err
		}
		if _, err := pool.Exec(in.ctx, vacuumLogSQL); err != nil {
			fmt.Fprintln(in.stderr, "The history is in order. Vacuum, which autovacuum will do in its time, failed:", err)
		}
		return 0, c.print(in, report, func() { printRebase(in, report) }) // it shows no event
	})
}

// rebase runs on one connection: the others of the pool would count as users of the log.
func (*EventsRebase) rebase(in *invocation, pool *pgxpool.Pool) (*rebase.Report, error) {
	conn, err := pool.Acquire(in.ctx)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	defer conn.Release()
	phase, shown := "", (*progress)(nil)
	report, err := rebase.Run(in.ctx, rebase.Config{
		Conn: conn.Conn(), Now: in.now,
		Progress: func(now string, done, total int64) {
			if now != phase {
				if shown != nil {
					shown.end()
				}
				phase, shown = now, newProgress(in.stderr, in.now)
			}
			shown.show(projection.Progress{Phase: now, Done: int(done), Total: int(total)})
		},
	})
	if shown != nil {
		shown.end()
	}
	return report, err
}

func printRebase(in *invocation, r *rebase.Report) {
	rows := [][]any{
		{"events", fmt.Sprintf("%d, of which %d have another position now", r.Events, r.Moved)},
		{"sealed", fmt.Sprintf("%d, hashed before and after", r.Sealed)},
	}
	if r.Sealed > 0 {
		rows = append(rows, []any{"root before", r.RootBefore}, []any{"root after", r.RootAfter})
	}
	rows = append(rows,
		[]any{"took", fmt.Sprintf("%.1f s, %.0f events/s", r.Seconds, float64(r.Events)/max(r.Seconds, 0.001))})
	in.table([]any{"REBASE", "the history is in order on this cluster"}, rows)
}
