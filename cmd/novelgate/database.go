package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os/user"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/commands/staff"
	"novelgate/internal/database"
	"novelgate/internal/pgserver"
)

// DatabaseFlags say where the data is. Every command has them.
type DatabaseFlags struct {
	DatabaseURL string `name:"database-url" env:"NOVELGATE_DATABASE_URL,DATABASE_URL" placeholder:"URL" help:"PostgreSQL to use, whatever --data-dir says; empty means the embedded one."`
	DataDir     string `name:"data-dir" env:"NOVELGATE_DATA_DIR" placeholder:"DIR" help:"Directory of the embedded PostgreSQL (default: ${data_dir})."`
}

// url returns the database, which for the embedded one must be running.
func (f DatabaseFlags) url(ctx context.Context) (string, error) {
	if f.DatabaseURL != "" {
		return f.DatabaseURL, nil
	}
	url, err := pgserver.Find(ctx, f.DataDir)
	if errors.Is(err, pgserver.ErrNotRunning) {
		return "", fmt.Errorf("%w: start `novelgate serve`, or name a database with --database-url", err)
	}
	if err != nil {
		return "", fmt.Errorf("find the embedded database: %w", asOwner(err))
	}
	return url, nil
}

// started returns the database, after starting the embedded one if it does not run; stop stops what was started.
func (f DatabaseFlags) started(in *invocation) (url string, stop func(), err error) {
	if f.DatabaseURL != "" {
		return f.DatabaseURL, func() {}, nil
	}
	server, err := pgserver.Start(in.ctx,
		pgserver.Config{DataDir: f.DataDir, Logger: slog.New(slog.NewTextHandler(in.stderr, nil))})
	if err != nil {
		return "", nil, fmt.Errorf("start the embedded database: %w", asOwner(err))
	}
	return server.URL(), func() {
		_ = server.Stop(context.WithoutCancel(in.ctx)) // it has said so in its log
	}, nil
}

// asOwner says who may use a data directory, to whom may not.
func asOwner(err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return fmt.Errorf("%w: run this as the user who runs `novelgate serve`, or as root", err)
}

// withPool runs do with a connection pool.
func (f DatabaseFlags) withPool(in *invocation, do func(pool *pgxpool.Pool) error) error {
	url, err := f.url(in.ctx)
	if err != nil {
		return err
	}
	pool, err := database.OpenGeneral(in.ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	return do(pool)
}

// withStaff runs do with the staff commands, in the name of the user who runs this program.
func (f DatabaseFlags) withStaff(in *invocation, do func(s *staff.Staff) error) error {
	return f.withPool(in, func(pool *pgxpool.Pool) error {
		return do(&staff.Staff{Pool: pool, Actor: actor(), Now: in.now})
	})
}

// actor names the user who runs this program, as events record it.
func actor() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return "staff:cli:" + u.Username
	}
	return "staff:cli"
}
