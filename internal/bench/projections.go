package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/bench/contest"
	"novelgate/internal/bench/cpu"
	"novelgate/internal/bench/replay"
	"novelgate/internal/pgserver"
	"novelgate/migrations"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// ProjectionsCommand is `bench projections`.
type ProjectionsCommand struct {
	DataDir string `name:"data-dir" type:"existingdir" placeholder:"DIR" help:"Directory, on a disk, for the data of the database server; what is made there is deleted afterwards (default: the one for temporary files)."`
	Events  int    `default:"2000000" help:"Events in the log: comments of about 300 characters."`
	Rounds  int    `default:"1" help:"Rounds, on the same log."`
	Workers int    `default:"0" help:"Connections that a rebuild loads with (default: one for each processor, and one)."`
}

// Run fills a log and measures how fast it is read.
func (c *ProjectionsCommand) Run(in *invocation) (err error) {
	dir, err := os.MkdirTemp(c.DataDir, "novelgate-bench-")
	if err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // the server may run under another account; what is inside is private
		return fmt.Errorf("open data directory: %w", err)
	}
	if err := contest.OnDisk(dir); err != nil {
		return err
	}
	server, err := pgserver.Start(in.ctx, pgserver.Config{DataDir: filepath.Join(dir, "data")})
	if err != nil {
		return fmt.Errorf("start the database server: %w", err)
	}
	defer func() { err = errors.Join(err, server.Stop(context.WithoutCancel(in.ctx))) }()
	if err := migrations.Up(in.ctx, server.URL()); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	pool, err := pgxpool.New(in.ctx, server.URL())
	if err != nil {
		return fmt.Errorf("open pool: %w", err)
	}
	defer pool.Close()
	debug.SetGCPercent(800) // as the service does
	debug.SetMemoryLimit(256 << 20)
	begun := in.now()
	if err := replay.Generate(in.ctx, pool, begun, c.Events); err != nil {
		return fmt.Errorf("generate the log: %w", err)
	}
	if err := in.print(fmt.Sprintf("%d events generated in %v\n", c.Events,
		in.now().Sub(begun).Round(time.Second))); err != nil {
		return err
	}
	const postmasterSQL = `SELECT split_part(pg_read_file('postmaster.pid'), E'\n', 1)::integer`
	var postmaster int
	if err := pool.QueryRow(in.ctx, postmasterSQL).Scan(&postmaster); err != nil {
		return fmt.Errorf("find the process of the database server: %w", err)
	}
	for range c.Rounds {
		if err := c.round(in, pool, postmaster); err != nil {
			return err
		}
	}
	return nil
}

// round measures the ways to read the log, one after another. Processor time tells more than speed where others use the
// machine.
func (c *ProjectionsCommand) round(in *invocation, pool *pgxpool.Pool, postmaster int) error {
	var reading float64
	const line = "%-27s %9.0f events/s  %.2f of the read loop  %5.1f s  processor time per event: %4.1f µs here, %4.1f " +
		"µs in the database\n"
	for _, way := range []struct {
		name string
		run  func() (int, error)
	}{
		{"read loop, one connection", func() (int, error) { return replay.ReadLoop(in.ctx, pool) }},
		{"posts catches up, live", func() (int, error) { return replay.CatchUp(in.ctx, pool, projections.Posts{}) }},
		{"posts is rebuilt beside it", func() (int, error) { return c.rebuild(in, pool, projections.Posts{}) }},
		{"authors is rebuilt", func() (int, error) { return c.rebuild(in, pool, projections.Authors{}) }},
	} {
		if way.name == "posts catches up, live" {
			if _, err := pool.Exec(in.ctx, `TRUNCATE posts; DELETE FROM projections; CHECKPOINT`); err != nil {
				return fmt.Errorf("empty posts: %w", err)
			}
		}
		before, err := processorTime(postmaster)
		if err != nil {
			return err
		}
		begun := in.now()
		n, err := way.run()
		if err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		took := in.now().Sub(begun)
		after, err := processorTime(postmaster)
		if err != nil {
			return err
		}
		perEvent := func(before, after time.Duration) float64 { return (after - before).Seconds() * 1e6 / float64(n) }
		rate := float64(n) / took.Seconds()
		if reading == 0 {
			reading = rate
		}
		err = in.print(fmt.Sprintf(line, way.name, rate, rate/reading, took.Seconds(), perEvent(before.here, after.here),
			perEvent(before.database, after.database)))
		if err != nil {
			return err
		}
	}
	return nil
}

// used is processor time so far.
type used struct{ here, database time.Duration }

func processorTime(postmaster int) (used, error) {
	here, err := cpu.Process(os.Getpid())
	if err != nil {
		return used{}, fmt.Errorf("measure this process: %w", err)
	}
	database, err := cpu.Family(postmaster)
	if err != nil {
		return used{}, fmt.Errorf("measure the database server: %w", err)
	}
	return used{here, database}, nil
}

func (c *ProjectionsCommand) rebuild(
	in *invocation, pool *pgxpool.Pool, projection projections.Projection,
) (int, error) {
	phase, entered := "", in.now()
	return replay.Rebuild(in.ctx, pool, projection, c.Workers, in.now, func(p rebuild.Progress) {
		if p.Phase == phase {
			return
		}
		if phase != "" {
			in.print(fmt.Sprintf("  %s took %v\n", phase, in.now().Sub(entered).Round(time.Millisecond))) //nolint:errcheck // the result will fail in the same way
		}
		phase, entered = p.Phase, in.now()
	})
}
