package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"novelgate/internal/child"
	"novelgate/internal/pgserver"
)

// arenaFlags configure the database server and the load.
type arenaFlags struct {
	DataDir    string   `name:"data-dir" type:"existingdir" placeholder:"DIR" help:"Directory, on a disk, for the data of the database server; what is made there is deleted afterwards (default: the one for temporary files)."`
	Binary     string   `type:"existingfile" placeholder:"FILE" help:"The novelgate to measure (default: built from this module)."`
	Titles     int      `default:"1000" help:"How many novels the comments are about."`
	Replies    float64  `default:"0.3" help:"Share of comments that answer an earlier one."`
	ServeFlags []string `name:"serve-flag" sep:"none" placeholder:"FLAG" help:"Further flags of novelgate serve, such as --serve-flag=--lanes=4."`
}

// arena is the database server of a benchmark. Each contestant has its own database.
type arena struct {
	arenaFlags
	dir        string
	self       string // path of this program, which starts peers and load generators
	server     *pgserver.Server
	admin      *pgx.Conn // to the maintenance database
	postmaster int
	rounds     uint16 // number of rounds so far
}

// run starts a database server with fsync on and with settings (default: those of the embedded server), builds the
// service unless the flags name one, calls use, and deletes everything.
func (f arenaFlags) run(ctx context.Context, settings map[string]string, use func(a *arena) error) (err error) {
	a := &arena{arenaFlags: f}
	if a.self, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if a.dir, err = os.MkdirTemp(f.DataDir, "novelgate-bench-"); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(a.dir)) }()
	if err := os.Chmod(a.dir, 0o755); err != nil { //nolint:gosec // the server may run under another account; the directories inside are private
		return fmt.Errorf("open data directory: %w", err)
	}
	if err := onDisk(a.dir); err != nil {
		return err
	}
	if a.Binary == "" {
		a.Binary = filepath.Join(a.dir, "novelgate")
		build := child.Command(ctx, "go", "build", "-buildvcs=false", "-o", a.Binary, "novelgate/cmd/novelgate")
		if err := build.Run(); err != nil {
			return fmt.Errorf("build novelgate: %w", err)
		}
	}
	stopping := context.WithoutCancel(ctx)
	a.server, err = pgserver.Start(ctx, pgserver.Config{DataDir: filepath.Join(a.dir, "data"), Settings: settings})
	if err != nil {
		return fmt.Errorf("start the database server: %w", err)
	}
	defer func() { err = errors.Join(err, a.server.Stop(stopping)) }()
	if a.admin, err = pgx.Connect(ctx, a.server.URL()); err != nil {
		return fmt.Errorf("connect to the database server: %w", err)
	}
	defer func() { err = errors.Join(err, a.admin.Close(stopping)) }()
	const postmasterSQL = `SELECT split_part(pg_read_file('postmaster.pid'), E'\n', 1)::integer`
	if err := a.admin.QueryRow(ctx, postmasterSQL).Scan(&a.postmaster); err != nil {
		return fmt.Errorf("find the process of the database server: %w", err)
	}
	return use(a)
}

// runService runs a database server and a service, calls use, and stops both.
func (f arenaFlags) runService(
	ctx context.Context, paused bool, settings map[string]string, use func(c *contestant) error,
) error {
	return f.run(ctx, settings, func(a *arena) error {
		c, err := a.newService(ctx, "novelgate", a.Binary, a.ServeFlags)
		if err != nil {
			return err
		}
		return c.running(ctx, paused, func() error { return use(c) })
	})
}

// createDatabase creates a database without planner statistics and returns its URL.
func (a *arena) createDatabase(ctx context.Context, name string) (string, error) {
	if _, err := a.admin.Exec(ctx, `CREATE DATABASE `+pgx.Identifier{name}.Sanitize()); err != nil {
		return "", fmt.Errorf("create database: %w", err)
	}
	config := a.admin.Config()
	return fmt.Sprintf("postgres:///%s?host=%s&port=%d&user=%s", name, config.Host, config.Port, config.User), nil
}

// checkpoint writes all changes to disk before a round, so that the round does not pay for them.
func (a *arena) checkpoint(ctx context.Context) error {
	if _, err := a.admin.Exec(ctx, `CHECKPOINT`); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}
