package testdb

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/migrations"
)

// New returns the URL of a new database with the migrated schema, for this test only. When the test ends, the database
// is dropped, even with open connections.
func New(t testing.TB) string {
	t.Helper()
	template, err := migratedTemplate()
	if err != nil {
		t.Fatalf("testdb: build template: %v", err)
	}
	return create(t, template)
}

// NewEmpty is New without the schema.
func NewEmpty(t testing.TB) string {
	t.Helper()
	return create(t, emptyTemplate)
}

// Copy returns the URL of a copy of a database of New, like a restored backup. All its connections must be closed.
func Copy(t testing.TB, database string) string {
	t.Helper()
	return create(t, Must(pgx.ParseConfig(database))(t).Database)
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

func serverURL() (string, error) {
	if url := os.Getenv(DatabaseURLVariable); url != "" {
		return url, nil
	}
	m := member()
	if m.err != nil {
		return "", m.err
	}
	return databaseURL(m.url, "postgres")
}

func create(t testing.TB, template string) string {
	t.Helper()
	name := databaseName(t.Name())
	created, err := databaseURL(ServerURL(t), name)
	if err == nil {
		err = onServer(func(ctx context.Context, conn *pgx.Conn) error { return createFrom(ctx, conn, template, name) })
	}
	if err != nil {
		t.Fatalf("testdb: create database: %v", err)
	}
	t.Cleanup(func() {
		if err := onServer(func(ctx context.Context, conn *pgx.Conn) error { return drop(ctx, conn, name) }); err != nil {
			t.Errorf("testdb: drop database: %v", err)
		}
	})
	return created
}

// authorSecret is the author_secret of all databases of New.
const authorSecret = "secret"

// AuthorKey returns the author key of an integration in the databases of New.
func AuthorKey(integrationID uuid.UUID) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(authorSecret+integrationID.String())))
}

// AuthorID returns the identifier of an author in the databases of New.
func AuthorID(integrationID uuid.UUID, externalUUID string) uuid.UUID {
	return events.AuthorID(AuthorKey(integrationID), externalUUID)
}

// shareAuthorSecret sets the author_secret of a database, which must lose all its connections again.
func shareAuthorSecret(ctx context.Context, database string) error {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return fmt.Errorf("connect to the template: %w", err)
	}
	return errors.Join(
		execute(ctx, conn, `UPDATE settings SET value = '`+authorSecret+`' WHERE name = 'author_secret'`), conn.Close(ctx))
}

const emptyTemplate = "template0"

// createFrom creates a database. It copies files, which is faster than writing each page to the WAL, because the
// template is small and no session writes to it. It waits for the backends of closed connections, because a database
// in use cannot be copied: CREATE DATABASE itself waits only for five seconds.
func createFrom(ctx context.Context, conn *pgx.Conn, template, name string) error {
	for busy := true; busy; {
		if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = $1)`,
			template).Scan(&busy); err != nil {
			return fmt.Errorf("wait for the connections to %s to close: %w", template, err)
		}
		if busy {
			time.Sleep(2 * time.Millisecond)
		}
	}
	statement := `CREATE DATABASE ` + pgx.Identifier{name}.Sanitize() + ` TEMPLATE ` +
		pgx.Identifier{template}.Sanitize() + ` STRATEGY FILE_COPY`
	if template == emptyTemplate {
		statement += ` ENCODING 'UTF8' LOCALE 'C'`
	}
	return execute(ctx, conn, statement)
}

func drop(ctx context.Context, conn *pgx.Conn, name string) error {
	return execute(ctx, conn, `DROP DATABASE IF EXISTS `+pgx.Identifier{name}.Sanitize()+` WITH (FORCE)`)
}

// onServer runs do with a connection. The context is not that of the test, because a cleanup runs after that has ended.
func onServer(do func(ctx context.Context, conn *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // long enough for a busy machine
	defer cancel()
	server, err := serverURL()
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return fmt.Errorf("connect to test server: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	return do(ctx, conn)
}

func execute(ctx context.Context, conn *pgx.Conn, statement string) error {
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("execute %q: %w", statement, err)
	}
	return nil
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

// databaseURL returns the URL of a database of the server, "" for the same one, with a long connect_timeout: a busy
// machine may need seconds to fork a process.
func databaseURL(server, database string) (string, error) {
	parsed, err := url.Parse(server)
	if err != nil {
		return "", fmt.Errorf("parse server URL: %w", err)
	}
	if parsed.Scheme != "postgres" && parsed.Scheme != "postgresql" {
		return "", fmt.Errorf("%s must be a postgres:// URL", DatabaseURLVariable)
	}
	if database != "" {
		parsed.Path = "/" + database
	}
	query := parsed.Query()
	query.Set("connect_timeout", "60")
	parsed.RawQuery = query.Encode()
	return parsed.String(), nil
}

// migratedTemplate returns the name of the template with the migrated schema. The first call builds it if it does not
// exist, under a lock that all test processes share. It gets its name when it is complete: a killed process may have
// left an unfinished one.
var migratedTemplate = sync.OnceValues(func() (string, error) {
	name := "novelgate_template_" + migrations.Hash()[:32]
	unfinished := name + "_unfinished"
	server, err := serverURL()
	if err != nil {
		return "", err
	}
	own, err := databaseURL(server, unfinished)
	if err != nil {
		return "", err
	}
	return name, onServer(func(ctx context.Context, conn *pgx.Conn) error { // closing it releases the lock
		var complete bool
		if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock(hashtextextended($1, 0))`, name); err != nil {
			return fmt.Errorf("lock template: %w", err)
		}
		if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`,
			name).Scan(&complete); err != nil || complete {
			return err
		}
		if err := errors.Join(drop(ctx, conn, unfinished), createFrom(ctx, conn, emptyTemplate, unfinished)); err != nil {
			return err
		}
		if _, err := migrations.Apply(ctx, own); err != nil {
			return fmt.Errorf("migrate template: %w", err)
		}
		if err := shareAuthorSecret(ctx, own); err != nil {
			return err
		}
		return errors.Join(createFrom(ctx, conn, unfinished, name), drop(ctx, conn, unfinished))
	})
})
