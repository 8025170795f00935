// Package contest measures comment endpoints against each other on one PostgreSQL server.
//
// A contestant is a process of its own with a database of its own. Rounds of several contestants alternate (A B, B A,
// A B, …), so that what drifts (the machine, the growing tables) drifts for all, and ratios are taken per round. One
// more process makes the load, so that its processor time is nobody's. The processor time of the database is that of
// the server and all its children. What a contestant does after its answers, such as the service's asynchronous
// projections, is waited for and counted.
package contest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"novelgate/internal/pgserver"
)

// Config of an Arena.
type Config struct {
	// DataDir gets a directory for the database server, which Close deletes. It must be on a disk: on a memory file
	// system a commit costs nothing. Default: the directory for temporary files.
	DataDir string
	// Binary is the novelgate to measure. Default: it is built from this module.
	Binary string
	// Titles is how many novels the comments are about. Replies is the share of comments that answer an earlier one.
	Titles  int
	Replies float64
	// Settings of the database server. Default: those with which the service runs its own.
	Settings map[string]string
}

// Arena is one database server for all contestants.
type Arena struct {
	config     Config
	dir        string
	self       string // this program, for peers and loads
	server     *pgserver.Server
	admin      *pgx.Conn
	postmaster int
	run        uint16 // number of the newest load
}

// Open starts the database server, with fsync on, and builds the service unless told where it is.
func Open(ctx context.Context, config Config) (_ *Arena, err error) {
	a := &Arena{config: config}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close(context.WithoutCancel(ctx)))
		}
	}()
	if a.self, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	if a.dir, err = os.MkdirTemp(config.DataDir, "novelgate-bench-"); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	if err := os.Chmod(a.dir, 0o755); err != nil { //nolint:gosec // the server may run under another account; what is inside is private
		return nil, fmt.Errorf("open data directory: %w", err)
	}
	if err := onDisk(a.dir); err != nil {
		return nil, err
	}
	if a.config.Binary == "" {
		a.config.Binary = filepath.Join(a.dir, "novelgate")
		build := command(ctx, "go", "build", "-buildvcs=false", "-o", a.config.Binary, "novelgate/cmd/novelgate")
		if err := build.Run(); err != nil {
			return nil, fmt.Errorf("build novelgate: %w", err)
		}
	}
	a.server, err = pgserver.Start(ctx, pgserver.Config{DataDir: filepath.Join(a.dir, "data"), Settings: config.Settings})
	if err != nil {
		return nil, fmt.Errorf("start the database server: %w", err)
	}
	if a.admin, err = pgx.Connect(ctx, a.server.URL()); err != nil {
		return nil, fmt.Errorf("connect to the database server: %w", err)
	}
	const postmasterSQL = `SELECT split_part(pg_read_file('postmaster.pid'), E'\n', 1)::integer`
	if err := a.admin.QueryRow(ctx, postmasterSQL).Scan(&a.postmaster); err != nil {
		return nil, fmt.Errorf("find the process of the database server: %w", err)
	}
	return a, nil
}

// Close stops the server and deletes its data. Contestants must have been stopped.
func (a *Arena) Close(ctx context.Context) error {
	var errs []error
	if a.admin != nil {
		errs = append(errs, a.admin.Close(ctx))
	}
	if a.server != nil {
		errs = append(errs, a.server.Stop(ctx))
	}
	if a.dir != "" {
		errs = append(errs, os.RemoveAll(a.dir))
	}
	return errors.Join(errs...)
}

// CreateDatabase returns the URL of a fresh database that was never analysed.
func (a *Arena) CreateDatabase(ctx context.Context, name string) (string, error) {
	if _, err := a.admin.Exec(ctx, `CREATE DATABASE `+pgx.Identifier{name}.Sanitize()); err != nil {
		return "", fmt.Errorf("create database: %w", err)
	}
	config := a.admin.Config()
	return fmt.Sprintf("postgres:///%s?host=%s&port=%d&user=%s", name, config.Host, config.Port, config.User), nil
}

// Command runs a command of the service's binary, such as events verify, and shows what it prints.
func (a *Arena) Command(ctx context.Context, args ...string) error {
	cmd := command(ctx, a.config.Binary, args...)
	cmd.Stdout = os.Stdout
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("novelgate %s: %w", args[0], err)
	}
	return nil
}

// Checkpoint writes all that is in memory to the disk, so that no round has to.
func (a *Arena) Checkpoint(ctx context.Context) error {
	if _, err := a.admin.Exec(ctx, `CHECKPOINT`); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

// DatabaseTime is the processor time that the database server has used so far.
func (a *Arena) DatabaseTime() (time.Duration, error) { return familyTime(a.postmaster) }
