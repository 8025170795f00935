package contest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"novelgate/internal/bench/cpu"
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
	// Now is the clock. Required.
	Now func() time.Time
}

// Arena is one database server for all contestants.
type Arena struct {
	config     Config
	dir        string
	self       string // this program, for contestants and loads
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
	if err := OnDisk(a.dir); err != nil {
		return nil, err
	}
	if config.Binary == "" {
		a.config.Binary = filepath.Join(a.dir, "novelgate")
		if err := command(ctx, "go", "build", "-o", a.config.Binary, "novelgate/cmd/novelgate").Run(); err != nil {
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

// createDatabase returns the URL of a fresh database that was never analysed.
func (a *Arena) createDatabase(ctx context.Context, name string) (string, error) {
	if _, err := a.admin.Exec(ctx, `CREATE DATABASE `+pgx.Identifier{name}.Sanitize()); err != nil {
		return "", fmt.Errorf("create database: %w", err)
	}
	config := a.admin.Config()
	return fmt.Sprintf("postgres:///%s?host=%s&port=%d&user=%s", name, config.Host, config.Port, config.User), nil
}

// used is the processor time so far of a contestant, of the database server, and of everybody together.
type used struct {
	service, database, machine time.Duration
	at                         time.Time
}

func (a *Arena) used(c *Contestant) (used, error) {
	service, err := cpu.Process(c.child.cmd.Process.Pid)
	if err != nil {
		return used{}, fmt.Errorf("measure %s: %w", c.Name, err)
	}
	database, err := cpu.Family(a.postmaster)
	if err != nil {
		return used{}, fmt.Errorf("measure the database server: %w", err)
	}
	machine, err := cpu.Machine()
	if err != nil {
		return used{}, fmt.Errorf("measure the machine: %w", err)
	}
	return used{service, database, machine, a.config.Now()}, nil
}

func (u used) since(before used) used {
	return used{
		service: u.service - before.service, database: u.database - before.database, machine: u.machine - before.machine,
	}
}
