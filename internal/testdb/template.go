package testdb

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	emptyTemplate  = "template0"
	templatePrefix = "novelgate_template_"
)

// templates remembers which templates are known to exist.
var templates = templateCache{names: map[string]string{}}

type templateCache struct {
	sync.Mutex
	names map[string]string // by server and hash
}

// get returns the name of the template for hash, after building it with migrate if nobody has.
func (c *templateCache) get(
	ctx context.Context, server, hash string, migrate func(ctx context.Context, url string) error,
) (string, error) {
	c.Lock()
	defer c.Unlock()
	key := server + " " + hash
	if name, known := c.names[key]; known {
		return name, nil
	}
	name := templatePrefix + hash[:min(len(hash), 32)]
	if err := ensureTemplate(ctx, server, name, migrate); err != nil {
		return "", fmt.Errorf("build template: %w", err)
	}
	c.names[key] = name
	return name, nil
}

// ensureTemplate builds the template under a lock that all test processes share. It is marked as a
// template only when it is complete: an unmarked one is what a killed process has left.
func ensureTemplate(
	ctx context.Context, server, name string, migrate func(ctx context.Context, url string) error,
) error {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return fmt.Errorf("connect to test server: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }() // and with it goes the lock
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock(hashtextextended($1, 0))`, name); err != nil {
		return fmt.Errorf("lock template: %w", err)
	}
	var complete bool
	err = conn.QueryRow(ctx, `SELECT datistemplate FROM pg_database WHERE datname = $1`, name).Scan(&complete)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("look for template: %w", err)
	}
	if complete {
		return nil
	}
	url, err := databaseURL(server, name)
	if err != nil {
		return err
	}
	quoted := pgx.Identifier{name}.Sanitize()
	if err := executeAll(ctx, conn,
		`DROP DATABASE IF EXISTS `+quoted+` WITH (FORCE)`,
		createStatement(name, emptyTemplate),
	); err != nil {
		return err
	}
	if err := migrate(ctx, url); err != nil {
		return fmt.Errorf("migrate template: %w", err)
	}
	if err := executeAll(ctx, conn, `ALTER DATABASE `+quoted+` ALLOW_CONNECTIONS false`); err != nil {
		return err
	}
	if err := awaitLastConnection(ctx, conn, name); err != nil {
		return err
	}
	return executeAll(ctx, conn, `ALTER DATABASE `+quoted+` IS_TEMPLATE true`)
}

func executeAll(ctx context.Context, conn *pgx.Conn, statements ...string) error {
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("execute %q: %w", statement, err)
		}
	}
	return nil
}

// awaitLastConnection waits for the backends of closed connections: a database in use cannot be cloned.
func awaitLastConnection(ctx context.Context, conn *pgx.Conn, database string) error {
	for {
		var busy int
		if err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = $1`,
			database).Scan(&busy); err != nil {
			return fmt.Errorf("count connections: %w", err)
		}
		if busy == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %d connections to the template to close: %w", busy, context.Cause(ctx))
		case <-time.After(2 * time.Millisecond):
		}
	}
}
