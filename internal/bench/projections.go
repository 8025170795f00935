package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// projectionsCommand is `bench projections`.
type projectionsCommand struct {
	testbedFlags
	Events  int `default:"2000000" help:"Events in the log: comments of about 300 characters."`
	Rounds  int `default:"1" help:"Rounds, on the same log."`
	Workers int `default:"0" help:"Concurrent writers of a rebuild (default: one more than processors)."`
}

// Run fills a log and measures how fast it is read and projected.
func (c *projectionsCommand) Run(ctx context.Context) error {
	return c.withTestbed(ctx, nil, func(t *testbed) error {
		s, err := t.newService(ctx, "novelgate", t.Binary, nil)
		if err != nil {
			return err
		}
		pool, err := pgxpool.New(ctx, s.databaseURL)
		if err != nil {
			return fmt.Errorf("open pool: %w", err)
		}
		defer pool.Close()
		debug.SetGCPercent(800) // as the service does
		debug.SetMemoryLimit(256 << 20)
		begun := time.Now()
		if err := s.fillLog(ctx, c.Titles, c.Events); err != nil {
			return err
		}
		if err := execute(ctx, pool, "VACUUM (FREEZE, ANALYZE) events", "CHECKPOINT"); err != nil {
			return err
		}
		fmt.Printf("%d events generated in %v\n", c.Events, time.Since(begun).Round(time.Second))
		for range c.Rounds {
			if err := c.round(ctx, t, pool); err != nil {
				return err
			}
		}
		return nil
	})
}

func execute(ctx context.Context, pool *pgxpool.Pool, statements ...string) error {
	for _, statement := range statements {
		if _, err := pool.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// round measures a plain read loop, and then the catch-up and the rebuild of each projection. On a machine with other
// load, processor time is more reliable than speed.
func (c *projectionsCommand) round(ctx context.Context, t *testbed, pool *pgxpool.Pool) error {
	reset := []string{`DELETE FROM projections`}
	for _, p := range projections.All() {
		reset = append(reset, `TRUNCATE `+strings.Join(p.Tables(), ", "))
	}
	reset = append(reset, `CHECKPOINT`)
	if err := execute(ctx, pool, reset...); err != nil {
		return err
	}
	var readLoopRate float64
	measure := func(name string, run func() (int, error)) error {
		before, err := t.cpuUsage(os.Getpid())
		if err != nil {
			return err
		}
		n, err := run()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		after, err := t.cpuUsage(os.Getpid())
		if err != nil {
			return err
		}
		took := after.at.Sub(before.at)
		rate := float64(n) / took.Seconds()
		if readLoopRate == 0 {
			readLoopRate = rate
		}
		const line = "%-30s %9.0f events/s  %.2f of the read loop  %5.1f s  processor time per event: %4.1f µs here, " +
			"%4.1f µs in the database\n"
		fmt.Printf(line, name, rate, rate/readLoopRate, took.Seconds(), micros(after.service-before.service)/float64(n),
			micros(after.database-before.database)/float64(n))
		return nil
	}
	err := measure("read loop, one connection", func() (int, error) { return readLoop(ctx, pool) })
	for _, p := range projections.All() {
		if err == nil {
			err = measure(p.Name()+" catches up, live", func() (int, error) { return catchUp(ctx, pool, p) })
		}
		if err == nil {
			err = measure(p.Name()+" is rebuilt", func() (int, error) { return c.rebuild(ctx, pool, p) })
		}
	}
	return err
}

// readLoop reads the log over one connection, a thousand events at a time, and discards them: the upper limit for a
// catch-up over one connection. It returns the number of events.
func readLoop(ctx context.Context, pool *pgxpool.Pool) (int, error) {
	const page = 1000
	const readSQL = `SELECT transaction_id, position, stream_type, stream_id, stream_version, event_id, integration_id, event_source, event_type, data, personal, salt, recorded_at
FROM events WHERE (transaction_id, position) > ($1, $2) ORDER BY transaction_id, position LIMIT $3`
	conn, err := eventlog.Connect(ctx, pool.Config().ConnConfig)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx) //nolint:errcheck // it only read
	read := 0
	for at := (events.Position{}); ; {
		rows, err := conn.Query(ctx, readSQL, at.TransactionID, at.Ordinal, page)
		if err != nil {
			return 0, fmt.Errorf("read: %w", err)
		}
		n := 0
		for rows.Next() {
			if n++; n == page { // the next page begins after this row
				if err := rows.Scan(&at.TransactionID, &at.Ordinal,
					nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil); err != nil {
					return 0, fmt.Errorf("read: %w", err)
				}
			}
		}
		if rows.Err() != nil {
			return 0, fmt.Errorf("read: %w", rows.Err())
		}
		if read += n; n < page {
			return read, nil
		}
	}
}

// catchUp lets a projection that has never run apply the whole log. It returns the number of events.
func catchUp(ctx context.Context, pool *pgxpool.Pool, projection projections.Projection) (n int, err error) {
	runner, err := projections.NewRunner(projections.Config{
		Pool: pool, Projections: []projections.Projection{projection}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return 0, fmt.Errorf("create runner: %w", err)
	}
	end, err := eventlog.LastSettled(ctx, pool)
	if err != nil {
		return 0, err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(running) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	// The aggregates return a row also before the projection has a checkpoint.
	const stateSQL = `SELECT coalesce(max(state), '') = 'failed', coalesce(bool_or((transaction_id, position) >= ($2, $3)), false) FROM projections WHERE name = $1`
	for failed, done := false, false; !done; time.Sleep(20 * time.Millisecond) {
		if err := pool.QueryRow(ctx, stateSQL, projection.Name(), end.TransactionID, end.Ordinal).Scan(&failed,
			&done); err != nil {
			return 0, fmt.Errorf("read the state of the projection: %w", err)
		}
		if failed {
			return 0, errors.New("the projection has failed")
		}
	}
	if err := pool.QueryRow(ctx, `SELECT count(*) FROM events`).Scan(&n); err != nil {
		return 0, fmt.Errorf("count events: %w", err)
	}
	return n, nil
}

// rebuild rebuilds a projection like novelgate projection rebuild, and prints the time of each phase.
func (c *projectionsCommand) rebuild(
	ctx context.Context, pool *pgxpool.Pool, projection projections.Projection,
) (int, error) {
	phase, entered := "", time.Now()
	printPhase := func() {
		if phase != "" {
			fmt.Printf("  %s took %v\n", phase, time.Since(entered).Round(time.Millisecond))
		}
	}
	result, err := rebuild.Run(ctx, rebuild.Config{
		Pool: pool, Projection: projection, Workers: c.Workers, Now: time.Now, Progress: func(p rebuild.Progress) {
			if p.Phase != phase {
				printPhase()
				phase, entered = p.Phase, time.Now()
			}
		},
	})
	if err != nil {
		return 0, err
	}
	printPhase()
	return result.Events, nil
}
