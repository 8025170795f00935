package testdb

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"novelgate/migrations"
)

const (
	maintenanceDatabase = "postgres"
	statementTimeout    = time.Minute // long enough for a busy machine
)

// New returns the URL of a new database with the migrated schema, for this test only. When the test ends, the database
// is dropped, even with open connections.
func New(t testing.TB) string {
	t.Helper()
	server := ServerURL(t)
	ctx, cancel := context.WithTimeout(context.Background(), statementTimeout)
	defer cancel()
	template, err := migratedTemplateName(ctx, server)
	if err != nil {
		t.Fatalf("testdb: %v", err)
	}
	return create(t, server, template)
}

// NewEmpty is New without the schema.
func NewEmpty(t testing.TB) string {
	t.Helper()
	return create(t, ServerURL(t), emptyTemplate)
}

// Copy returns the URL of a copy of a database of New, like a restored backup. All its connections must be closed.
func Copy(t testing.TB, database string) string {
	t.Helper()
	config, err := pgx.ParseConfig(database)
	if err != nil {
		t.Fatalf("testdb: %v", err)
	}
	server := ServerURL(t)
	if err := withConnection(server, func(ctx context.Context, conn *pgx.Conn) error {
		return awaitLastConnection(ctx, conn, config.Database)
	}); err != nil {
		t.Fatalf("testdb: %v", err)
	}
	return create(t, server, config.Database)
}

// ServerURL returns the URL of the maintenance database of the server that all tests share, for tests with several
// databases or of the server itself.
func ServerURL(t testing.TB) string {
	t.Helper()
	server, err := serverURL()
	if err != nil {
		t.Fatalf("testdb: %v", err)
	}
	return server
}

func create(t testing.TB, server, template string) string {
	t.Helper()
	name := databaseName(t.Name())
	created, err := databaseURL(server, name)
	if err == nil {
		err = execute(server, createStatement(name, template))
	}
	if err != nil {
		t.Fatalf("testdb: create database: %v", err)
	}
	t.Cleanup(func() {
		if err := execute(server, `DROP DATABASE IF EXISTS `+pgx.Identifier{name}.Sanitize()+` WITH (FORCE)`); err != nil {
			t.Errorf("testdb: drop database: %v", err)
		}
	})
	return created
}

// createStatement returns the SQL that creates a database. It copies files, which is faster than writing each page to
// the WAL, because the template is small and no session writes to it.
func createStatement(name, template string) string {
	statement := `CREATE DATABASE ` + pgx.Identifier{name}.Sanitize() + ` TEMPLATE ` +
		pgx.Identifier{template}.Sanitize() + ` STRATEGY FILE_COPY`
	if template == emptyTemplate {
		statement += ` ENCODING 'UTF8' LOCALE 'C'`
	}
	return statement
}

// withConnection runs do with a connection. The context is not that of the test, because a cleanup runs after that has
// ended.
func withConnection(server string, do func(ctx context.Context, conn *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), statementTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return fmt.Errorf("connect to test server: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	return do(ctx, conn)
}

// execute runs one statement on its own connection.
func execute(server, statement string) error {
	return withConnection(server, func(ctx context.Context, conn *pgx.Conn) error {
		return executeAll(ctx, conn, statement)
	})
}

// databaseName returns a unique name with the name of the test, within the 63 bytes of a PostgreSQL name.
func databaseName(test string) string {
	const room = 63 - len("novelgate_test_") - len("_") - 12
	sane := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		default:
			return '_'
		}
	}, test)
	var random [6]byte
	_, _ = rand.Read(random[:]) // never fails: it aborts the program instead
	return "novelgate_test_" + sane[:min(len(sane), room)] + "_" + hex.EncodeToString(random[:])
}

// databaseURL returns the URL of another database of the server.
func databaseURL(server, database string) (string, error) {
	parsed, err := url.Parse(server)
	if err != nil {
		return "", fmt.Errorf("parse server URL: %w", err)
	}
	if parsed.Scheme != "postgres" && parsed.Scheme != "postgresql" {
		return "", fmt.Errorf("%s must be a postgres:// URL", DatabaseURLVariable)
	}
	parsed.Path = "/" + database
	return withConnectTimeout(parsed.String())
}

// withConnectTimeout returns the URL with a long connect_timeout: a busy machine may need seconds to fork a process.
func withConnectTimeout(database string) (string, error) {
	parsed, err := url.Parse(database)
	if err != nil {
		return "", fmt.Errorf("parse database URL: %w", err)
	}
	query := parsed.Query()
	query.Set("connect_timeout", strconv.Itoa(int(statementTimeout/time.Second)))
	parsed.RawQuery = query.Encode()
	return parsed.String(), nil
}

const (
	emptyTemplate  = "template0"
	templatePrefix = "novelgate_template_"
)

// migratedTemplate is the template with the migrated schema.
var migratedTemplate struct {
	sync.Mutex
	name string // "" until this process knows that it exists
}

// migratedTemplateName returns the name of the template. It builds the template if it does not exist.
func migratedTemplateName(ctx context.Context, server string) (string, error) {
	migratedTemplate.Lock()
	defer migratedTemplate.Unlock()
	if migratedTemplate.name == "" {
		name := templatePrefix + migrations.Hash()[:32]
		if err := ensureTemplate(ctx, server, name); err != nil {
			return "", fmt.Errorf("build template: %w", err)
		}
		migratedTemplate.name = name
	}
	return migratedTemplate.name, nil
}

// ensureTemplate builds the template under a lock that all test processes share. It is marked as a template when it is
// complete: an unmarked one was left by a killed process.
func ensureTemplate(ctx context.Context, server, name string) error {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return fmt.Errorf("connect to test server: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }() // closing releases the lock
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
	if err := migrations.Up(ctx, url); err != nil {
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

// awaitLastConnection waits for the backends of closed connections, because a database in use cannot be copied. CREATE
// DATABASE itself waits only for five seconds.
func awaitLastConnection(ctx context.Context, conn *pgx.Conn, database string) error {
	for busy := true; busy; time.Sleep(2 * time.Millisecond) {
		if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = $1)`,
			database).Scan(&busy); err != nil {
			return fmt.Errorf("wait for the connections to %s to close: %w", database, err)
		}
	}
	return nil
}
