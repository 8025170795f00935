package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"novelgate/internal/pgserver"
)

// testbedFlags configure the database server and the load.
type testbedFlags struct {
	DataDir    string   `type:"existingdir" placeholder:"DIR" help:"Directory on a disk for the data of the database server, which is deleted afterwards (default: the directory for temporary files)."`
	Binary     string   `type:"existingfile" placeholder:"FILE" help:"The novelgate to measure (default: built from this module)."`
	ServeFlags []string `name:"serve-flag" sep:"none" placeholder:"FLAG" help:"Further flags of novelgate serve, such as --serve-flag=--readers=64."`
}

// testbed is the database server of a benchmark. Each contestant has its own database.
type testbed struct {
	testbedFlags
	dir        string
	self       string    // path of this program, which also runs as peer
	admin      *pgx.Conn // to the maintenance database
	postmaster int
	rounds     uint16 // number of rounds so far
}

// withTestbed starts a database server with fsync on and with additional settings, builds the service unless the flags
// name a binary, calls use, stops the server and deletes its data.
func (f testbedFlags) withTestbed(
	ctx context.Context, settings map[string]string, use func(t *testbed) error,
) (err error) {
	// One processor is more than enough for the load. More threads would take time from the measured processes.
	runtime.GOMAXPROCS(1)
	t := &testbed{testbedFlags: f}
	if t.self, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if t.dir, err = os.MkdirTemp(f.DataDir, "novelgate-bench-"); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(t.dir)) }()
	if err := os.Chmod(t.dir, 0o755); err != nil { //nolint:gosec // the server may run under another account; the directories inside are private
		return fmt.Errorf("open data directory: %w", err)
	}
	const tmpfs = 0x01021994 // statfs(2)
	var fs syscall.Statfs_t
	if err := syscall.Statfs(t.dir, &fs); err == nil && fs.Type == tmpfs {
		return errors.New(t.dir + " is on a file system in memory: choose a directory on a disk with --data-dir")
	}
	if t.Binary == "" {
		t.Binary = filepath.Join(t.dir, "novelgate")
		build := command(ctx, "go", "build", "-buildvcs=false", "-o", t.Binary, "novelgate/cmd/novelgate")
		if err := build.Run(); err != nil {
			return fmt.Errorf("build novelgate: %w", err)
		}
	}
	stopping := context.WithoutCancel(ctx)
	server, err := pgserver.Start(ctx, pgserver.Config{DataDir: filepath.Join(t.dir, "data"), Settings: settings})
	if err != nil {
		return fmt.Errorf("start the database server: %w", err)
	}
	defer func() { err = errors.Join(err, server.Stop(stopping)) }()
	if t.admin, err = pgx.Connect(ctx, server.URL()); err != nil {
		return fmt.Errorf("connect to the database server: %w", err)
	}
	defer func() { err = errors.Join(err, t.admin.Close(stopping)) }()
	const postmasterSQL = `SELECT split_part(pg_read_file('postmaster.pid'), E'\n', 1)::integer`
	if err := t.admin.QueryRow(ctx, postmasterSQL).Scan(&t.postmaster); err != nil {
		return fmt.Errorf("find the process of the database server: %w", err)
	}
	return use(t)
}

// withService runs a database server and a service, calls use, and stops both.
func (f testbedFlags) withService(
	ctx context.Context, settings map[string]string, use func(c *contestant) error,
) error {
	return f.withTestbed(ctx, settings, func(t *testbed) error {
		c, err := t.newService(ctx, "novelgate", t.Binary, t.ServeFlags)
		if err != nil {
			return err
		}
		return c.whileRunning(ctx, func() error { return use(c) })
	})
}

// createDatabase creates a database without planner statistics and returns its URL.
func (t *testbed) createDatabase(ctx context.Context, name string) (string, error) {
	if _, err := t.admin.Exec(ctx, `CREATE DATABASE `+pgx.Identifier{name}.Sanitize()); err != nil {
		return "", fmt.Errorf("create database: %w", err)
	}
	config := t.admin.Config()
	return fmt.Sprintf("postgres:///%s?host=%s&port=%d&user=%s", name, config.Host, config.Port, config.User), nil
}

// command returns a command that gets SIGTERM when ctx ends, and is killed 30 seconds later. Its standard error is that
// of this process.
func command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // our own programs
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	cmd.Stderr = os.Stderr
	return cmd
}
