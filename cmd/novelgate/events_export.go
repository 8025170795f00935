package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/ledger/audit"
)

type eventsExport struct {
	CommonFlags
	Dir   string `arg:"" type:"path" help:"Directory to write: a new one, or an earlier export to continue."`
	Since string `placeholder:"DIR|INDEX" help:"Export only the events after an earlier bundle, or from a log index on. The start is rounded down to the beginning of a file of 4096 events."`
}

// run exports the history up to the served checkpoint.
func (c *eventsExport) run(ctx context.Context, env *environment) error {
	from, err := c.from()
	if err != nil {
		return err
	}
	parameters := map[string]string{"directory": c.Dir, "since": c.Since}
	return env.withAccessLog(ctx, parameters, func(pool *pgxpool.Pool) (int64, error) {
		begun := env.now()
		export := audit.Export{
			DB: pool, Dir: c.Dir, From: from, Workers: auditWorkers(), Now: env.now,
			Progress: env.progress("export", "events"),
		}
		m, err := export.Run(ctx)
		return m.Events, env.show(said(m, err,
			"%s: %d events from log index %d on, up to a checkpoint over %d entries of %s, in %v",
			c.Dir, m.Events, m.FirstLogIndex, m.Size, m.Origin, env.now().Sub(begun).Round(time.Millisecond)))
	})
}

// from returns the log index to start with: that of --since, or the end of the bundle that --since names. Without
// --since it is 0.
func (c *eventsExport) from() (int64, error) {
	if c.Since == "" {
		return 0, nil
	}
	if index, err := strconv.ParseInt(c.Since, 10, 64); err == nil {
		return index, nil
	}
	older, err := audit.OpenBundles([]string{c.Since})
	if err != nil {
		return 0, fmt.Errorf("--since: neither a log index nor a bundle: %w", err)
	}
	return older.Size(), nil
}

// auditWorkers returns the number of concurrent workers. Each one uses a database connection.
func auditWorkers() int {
	const most = 4
	return min(runtime.GOMAXPROCS(0)+1, most)
}
