package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"os/user"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/commands/staff"
	"novelgate/internal/database"
	"novelgate/internal/pgserver"
)

// CommonFlags are the flags of most commands.
type CommonFlags struct {
	DatabaseFlags
	OutputFlags
}

// DatabaseFlags select the database.
type DatabaseFlags struct {
	DatabaseURL string `env:"NOVELGATE_DATABASE_URL,DATABASE_URL" placeholder:"URL" help:"URL of the PostgreSQL database. It takes precedence over --data-dir. Empty: the embedded PostgreSQL."`
	DataDir     string `env:"NOVELGATE_DATA_DIR" placeholder:"DIR" help:"Directory of the embedded PostgreSQL and of the keys of the ledger (default: ${data_dir})."`
}

// pool opens the database until the command ends.
func (f DatabaseFlags) pool(ctx context.Context, env *env) (*pgxpool.Pool, error) {
	url, err := f.url(ctx)
	if err != nil {
		return nil, err
	}
	pool, err := database.OpenGeneral(ctx, url)
	if err == nil {
		env.closers = append(env.closers, pool.Close)
	}
	return pool, err
}

// staff opens the database for commands of staff, which print to the output.
func (f CommonFlags) staff(ctx context.Context, env *env) (*staff.Staff, *output, error) {
	pool, err := f.pool(ctx, env)
	if err != nil {
		return nil, nil, err
	}
	return newStaff(pool, env.now), f.output(env), nil
}

// newStaff returns the commands of staff on a database. The actor is the operating system's user.
func newStaff(pool *pgxpool.Pool, now clock) *staff.Staff {
	return &staff.Staff{Pool: pool, Actor: actor(), Now: now}
}

// url returns the URL of the database. Without --database-url, the embedded server must be running.
func (f DatabaseFlags) url(ctx context.Context) (string, error) {
	if f.DatabaseURL != "" {
		return f.DatabaseURL, nil
	}
	url, err := pgserver.Find(ctx, f.DataDir)
	if errors.Is(err, pgserver.ErrNotRunning) {
		return "", fmt.Errorf("%w: start `novelgate serve`, or name a database with --database-url", err)
	}
	if err != nil {
		return "", fmt.Errorf("find the embedded database: %w", err)
	}
	return url, nil
}

// start sets DatabaseURL to the URL that the flags select. Without --database-url it starts the embedded server, unless
// that is running already. A server that it has started stops when the command ends.
func (f *DatabaseFlags) start(ctx context.Context, env *env) error {
	if f.DatabaseURL != "" {
		return nil
	}
	url, err := pgserver.Find(ctx, f.DataDir)
	if !errors.Is(err, pgserver.ErrNotRunning) {
		f.DatabaseURL = url
		return err
	}
	logger := env.logger(slog.LevelInfo)
	server, err := pgserver.Start(ctx, pgserver.Config{DataDir: f.DataDir, Logger: logger})
	if err != nil {
		return err
	}
	db := &databaseServer{logger: logger, server: server}
	env.closers = append(env.closers, func() { db.stop(context.WithoutCancel(ctx)) })
	f.DatabaseURL = server.URL()
	return nil
}

// actor returns the actor of this process's events: staff:cli:USER, or staff:cli if the user has no name.
func actor() string { return strings.TrimSuffix("staff:cli:"+userName(), ":") }

// userName returns the user's name in the operating system, or "".
func userName() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

// requireHTTP refuses addresses other than http and https. It accepts nil, a flag that was not given: kong reports
// missing required flags later.
func requireHTTP(flag string, u *url.URL) error {
	if u == nil {
		return nil
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%s: %q is not an http or https address", flag, u.Redacted())
	}
	return nil
}

// OutputFlags choose between text and JSON.
type OutputFlags struct {
	JSON bool `help:"Print JSON."`
}

// output returns the output of the command.
func (f OutputFlags) output(env *env) *output { return &output{env.streams, f.JSON} }

// OptionalReason is the reason for a decision.
type OptionalReason struct {
	Reason string `help:"Why, for the history."`
}

// RequiredReason is the required reason for a decision.
type RequiredReason struct {
	Reason string `required:"" help:"Required: why, for the history."`
}

// RowsFlag limits a list.
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

// readLimit returns the number of rows to read: one more than the limit, to detect that there are more.
func (l rowLimit) readLimit() int {
	if l == 0 || l == math.MaxInt {
		return math.MaxInt
	}
	return int(l) + 1
}

// shown returns the rows within the limit. It prints a note on standard error when there are more.
func shown[T any](s streams, list []T, limit rowLimit) []T {
	if limit == 0 || len(list) <= int(limit) {
		return list
	}
	fmt.Fprintf(s.stderr, "Only the first %d; --limit shows more.\n", limit)
	return list[:limit]
}
