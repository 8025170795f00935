package main

import (
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/ledger/bundle"
)

// EventsExport is `novelgate events export`.
type EventsExport struct {
	DatabaseFlags
	OutputFlags
	Dir   string `arg:"" type:"path" help:"Directory to write: a new one, or an earlier export, which is added to."`
	Since string `placeholder:"DIR|INDEX" help:"Only what is new: events behind those of an earlier bundle, or from a log index on. It is rounded down to the beginning of a file, 4096 events."`
}

// Run exports the history up to the newest checkpoint.
func (c *EventsExport) Run(in *invocation) error {
	from, err := c.from()
	if err != nil {
		return err
	}
	parameters := map[string]string{"directory": c.Dir}
	if c.Since != "" {
		parameters["since"] = c.Since
	}
	return c.withHistory(in, "export", parameters, func(pool *pgxpool.Pool) (int64, error) {
		export := bundle.Export{DB: pool, Dir: c.Dir, From: from, Workers: auditWorkers(), Now: in.now}
		if isTerminal(in.stderr) {
			export.Progress = in.progress("export", "events")
		}
		begun := in.now()
		m, err := export.Run(in.ctx)
		if err != nil {
			return 0, err
		}
		return m.Events, c.print(in, m, func() {
			took := in.now().Sub(begun)
			fmt.Fprintf(in.stdout, "%s: %d events from log index %d on, up to a checkpoint over %d entries of %s, in %v\n",
				c.Dir, m.Events, m.FirstLogIndex, m.Size, m.Origin, took.Round(time.Millisecond))
		})
	})
}

// from is the log index to start with.
func (c *EventsExport) from() (int64, error) {
	if c.Since == "" {
		return 0, nil
	}
	if index, err := strconv.ParseInt(c.Since, 10, 64); err == nil {
		return index, nil
	}
	older, err := bundle.OpenDir(c.Since)
	if err != nil {
		return 0, fmt.Errorf("--since: neither a log index nor a bundle: %w", err)
	}
	return older.Manifest.Size, nil
}

// auditWorkers is how many files are worked on at a time: each has a database connection.
func auditWorkers() int {
	const most = 4
	return min(runtime.GOMAXPROCS(0)+1, most)
}
