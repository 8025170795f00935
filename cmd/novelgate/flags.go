package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"os/user"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/commands/request"
	"novelgate/commands/staff"
	"novelgate/internal/database"
	"novelgate/internal/pgserver"
)

// CommonFlags are the flags of most commands.
type CommonFlags struct {
	DatabaseFlags
	OutputFlags
}

// OutputFlags choose between text and JSON.
type OutputFlags struct {
	JSON bool `help:"Print JSON."`
}

// AfterApply passes the flag on; kong calls it.
func (f OutputFlags) AfterApply(env *environment) error { //nolint:unparam // kong demands an error
	env.json = f.JSON
	return nil
}

// DatabaseFlags select the database.
type DatabaseFlags struct {
	DatabaseURL string `env:"NOVELGATE_DATABASE_URL,DATABASE_URL" placeholder:"URL" help:"URL of the PostgreSQL database. It takes precedence over --data-dir. Empty: the embedded PostgreSQL."`
	DataDir     string `env:"NOVELGATE_DATA_DIR" placeholder:"DIR" help:"Directory of the embedded PostgreSQL and of the keys of the ledger (default: ${data_dir})."`
}

// AfterApply passes the flags on; kong calls it.
func (f DatabaseFlags) AfterApply(env *environment) error { //nolint:unparam // kong demands an error
	env.database = f
	return nil
}

// url returns the URL of the database. Without --database-url, the embedded server must be running.
func (f DatabaseFlags) url(ctx context.Context) (string, error) {
	if f.DatabaseURL != "" {
		return f.DatabaseURL, nil
	}
	url, err := pgserver.Find(ctx, f.DataDir)
	if errors.Is(err, pgserver.ErrNotRunning) {
		return "", fmt.Errorf("%w: start `novelgate serve`, or name its --data-dir or --database-url", err)
	}
	if err != nil {
		return "", fmt.Errorf("find the embedded database: %w", err)
	}
	return url, nil
}

// pool opens the database until the command ends.
func (e *environment) pool(ctx context.Context) (*pgxpool.Pool, error) {
	url, err := e.database.url(ctx)
	if errors.Is(err, pgserver.ErrNotRunning) && e.service.URL == "" && os.Getenv("NOVELGATE_URL") != "" {
		err = fmt.Errorf("%w. NOVELGATE_URL does not help: this works on the database", err)
	}
	if err != nil {
		return nil, err
	}
	pool, err := database.OpenGeneral(ctx, url)
	if err == nil {
		e.closers = append(e.closers, pool.Close)
	}
	return pool, err
}

// startDatabase returns the URL of the database. Without --database-url it starts the embedded server, unless that is
// running already. A server that it has started stops when the command ends.
func (e *environment) startDatabase(ctx context.Context) (string, error) {
	if e.database.DatabaseURL != "" {
		return e.database.DatabaseURL, nil
	}
	url, err := pgserver.Find(ctx, e.database.DataDir)
	if !errors.Is(err, pgserver.ErrNotRunning) {
		return url, err
	}
	logger := e.logger()
	server, err := pgserver.Start(ctx, pgserver.Config{
		DataDir: e.database.DataDir, BackupDir: e.backupDir, Logger: logger,
	})
	if err != nil {
		return "", err
	}
	db := &databaseServer{logger: logger, server: server}
	e.closers = append(e.closers, func() { db.stop(context.WithoutCancel(ctx)) })
	return server.URL(), nil
}

// newStaff returns the commands of staff on a database.
func (e *environment) newStaff(pool *pgxpool.Pool) *staff.Staff {
	return &staff.Staff{Pool: pool, Actor: actor(), Now: e.now}
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

// within returns the rows within the limit. It prints a note on standard error when there are more.
func within[T any](env *environment, limit rowLimit, list []T) []T {
	if limit == 0 || len(list) <= int(limit) {
		return list
	}
	fmt.Fprintf(env.stderr, "Only the first %d; --limit shows more.\n", limit)
	return list[:limit]
}

// parseHTTP parses the address of a flag. It refuses others than http and https.
func parseHTTP(flag, address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%s: %q is not an http or https address", flag, u.Redacted())
	}
	if wrong := request.CheckPort(u); wrong != "" {
		return nil, fmt.Errorf("%s: %q %s", flag, u.Redacted(), wrong)
	}
	return u, nil
}
