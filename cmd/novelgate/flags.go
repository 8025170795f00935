package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os/user"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/commands/staff"
	"novelgate/internal/database"
	"novelgate/internal/pgserver"
)

// CommonFlags are those of nearly every command.
type CommonFlags struct {
	DatabaseFlags
	OutputFlags
}

// DatabaseFlags say where the data is.
type DatabaseFlags struct {
	DatabaseURL string `name:"database-url" env:"NOVELGATE_DATABASE_URL,DATABASE_URL" placeholder:"URL" help:"PostgreSQL to use, whatever --data-dir says; empty means the embedded one."`
	DataDir     string `name:"data-dir" env:"NOVELGATE_DATA_DIR" placeholder:"DIR" help:"Directory of the embedded PostgreSQL (default: ${data_dir})."`
}

// ProvidePool opens the database, once.
func (f DatabaseFlags) ProvidePool(ctx context.Context, open *resources) (*pgxpool.Pool, error) {
	if open.pool != nil {
		return open.pool, nil
	}
	url, err := f.url(ctx)
	if err != nil {
		return nil, err
	}
	if open.pool, err = database.OpenGeneral(ctx, url); err != nil {
		return nil, err
	}
	open.closeLater(open.pool.Close)
	return open.pool, nil
}

// ProvideStaff opens the database for the commands of staff, in the name of the user who runs this program.
func (f DatabaseFlags) ProvideStaff(ctx context.Context, open *resources, now clock) (*staff.Staff, error) {
	pool, err := f.ProvidePool(ctx, open)
	return &staff.Staff{Pool: pool, Actor: actor(), Now: now}, err
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

// start starts the embedded database if it does not run, until the command has ended. The flags name it from then on.
func (f *DatabaseFlags) start(ctx context.Context, s streams, open *resources) error {
	if f.DatabaseURL != "" {
		return nil
	}
	server, err := pgserver.Start(ctx, pgserver.Config{DataDir: f.DataDir, Logger: s.logger(slog.LevelInfo)})
	if err != nil {
		return fmt.Errorf("start the embedded database: %w", asOwner(err))
	}
	open.closeLater(func() { _ = server.Stop(context.WithoutCancel(ctx)) }) // it logs its errors
	f.DatabaseURL = server.URL()
	return nil
}

// asOwner adds to a permission error who may use a data directory.
func asOwner(err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return fmt.Errorf("%w: run this as the user who runs `novelgate serve`, or as root", err)
}

// actor names the user who runs this program, as events record it.
func actor() string { return strings.TrimSuffix("staff:cli:"+userName(), ":") }

// userName is the user's name in the operating system, "" for one without.
func userName() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

// OutputFlags choose between output for people and for programs.
type OutputFlags struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// ProvideOutput returns where the command prints.
func (f OutputFlags) ProvideOutput(s streams) *output { return &output{s, f.JSON} }

// OptionalReason is why something is decided.
type OptionalReason struct {
	Reason string `help:"Why, for the history."`
}

// RequiredReason is why something is decided, where the history must have a reason.
type RequiredReason struct {
	Reason string `required:"" help:"Why, for the history."`
}

// RowsFlag bounds a list.
type RowsFlag struct {
	Limit rowLimit `default:"100" help:"Maximum number of rows; 0 shows all."`
}

// rowLimit is the maximum number of rows of a list; 0 is no limit.
type rowLimit int

// Validate refuses a negative number; kong calls it.
func (l rowLimit) Validate() error {
	if l < 0 {
		return errors.New("must not be negative; 0 shows all")
	}
	return nil
}

// sought is how many rows to read: one more than the limit, which tells that there are more.
func (l rowLimit) sought() int {
	if l == 0 || l == math.MaxInt {
		return math.MaxInt
	}
	return int(l) + 1
}

// shown returns the rows within the limit, and tells people when there are more.
func shown[T any](s streams, list []T, limit rowLimit) []T {
	if limit == 0 || len(list) <= int(limit) {
		return list
	}
	fmt.Fprintf(s.stderr, "Only the first %d; --limit shows more.\n", limit)
	return list[:limit]
}
