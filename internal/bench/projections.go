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

	"novelgate/events/eventlog"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// projectionsCommand is `bench projections`.
type projectionsCommand struct {
	testbedFlags
	Events int `default:"2000000" help:"Events in the log: comments of about 300 characters."`
	Rounds int `default:"1" help:"Rounds, on the same log."`
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
			if err := measureProjections(ctx, t, pool); err != nil {
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

// measureProjections measures a plain read loop, and then the catch-up and the rebuild of each projection. On a machine
// with other load, processor time is more reliable than speed.
func measureProjections(ctx context.Context, t *testbed, pool *pgxpool.Pool) error {
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
			err = measure(p.Name()+" is rebuilt", func() (int, error) { return rebuildTables(ctx, pool, p) })
		}
	}
	return err
}

// readLoop reads the log over one connection, a thousand events at a time, and discards them: the upper limit for a
// catch-up over one connection. It returns the number of events.
func readLoop(ctx context.Context, pool *pgxpool.Pool) (int, error) {
	const page = 1000
	const readSQL = `SELECT ` + eventlog.Columns + ` FROM events WHERE log_index >= $1 ORDER BY log_index LIMIT $2`
	conn, err := eventlog.Connect(ctx, pool.Config().ConnConfig)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx) //nolint:errcheck // it only read
	for read := 0; ; {
		rows, err := conn.Query(ctx, readSQL, read, page)
		if err != nil {
			return 0, fmt.Errorf("read: %w", err)
		}
		n := 0
		for rows.Next() {
			n++
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
	end, err := eventlog.End(ctx, pool)
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
	const stateSQL = `SELECT coalesce(max(state), '') = 'failed', coalesce(bool_or(position >= $2), false) FROM projections WHERE name = $1`
	for failed, done := false, false; !done; time.Sleep(20 * time.Millisecond) {
		if err := pool.QueryRow(ctx, stateSQL, projection.Name(), end.Position).Scan(&failed, &done); err != nil {
			return 0, fmt.Errorf("read the state of the projection: %w", err)
		}
		if failed {
			return 0, errors.New("the projection has failed")
		}
	}
	return int(end.Position), nil
}

// rebuildTables rebuilds a projection like novelgate projection rebuild. It returns the number of events.
func rebuildTables(ctx context.Context, pool *pgxpool.Pool, projection projections.Projection) (int, error) {
	result, err := rebuild.Run(ctx, rebuild.Config{Pool: pool, Projection: projection, Now: time.Now})
	return result.Events, err
}
