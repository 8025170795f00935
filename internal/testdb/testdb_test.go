package testdb_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"novelgate/internal/testdb"
)

func TestMain(m *testing.M) { os.Exit(testdb.Run(m)) }

// query returns one text.
func query(t *testing.T, url, sql string, args ...any) string {
	t.Helper()
	conn := testdb.Connect(t, url)
	defer func() { _ = conn.Close(t.Context()) }()
	return testdb.Value[string](t, conn, sql, args...)
}

func TestNewEmptyHasNoTables(t *testing.T) {
	t.Parallel()
	url := testdb.NewEmpty(t)
	if got := query(t, url, `SELECT count(*)::text FROM pg_tables WHERE schemaname = 'public'`); got != "0" {
		t.Errorf("an empty database has %s tables", got)
	}
	if got := query(t, url, `SHOW server_encoding`); got != "UTF8" {
		t.Errorf("encoding %s", got)
	}
}

func TestDatabasesAreApart(t *testing.T) {
	t.Parallel()
	first, second := testdb.New(t), testdb.New(t)
	testdb.Exec(t, testdb.Connect(t, first), `CREATE TABLE only_here ()`)
	if got := query(t, second, `SELECT coalesce(to_regclass('only_here')::text, 'none')`); got != "none" {
		t.Error("a table of one database is in the other")
	}
}

func TestDatabaseIsDroppedAfterItsTest(t *testing.T) {
	t.Parallel()
	var name string
	t.Run("Ünique/name with spaces and "+strings.Repeat("length ", 20), func(t *testing.T) {
		url := testdb.New(t)
		name = query(t, url, `SELECT current_database()`)
		// A connection that the test has not closed does not prevent the drop.
		conn := testdb.Must(pgx.Connect(t.Context(), url))(t)
		parent := context.WithoutCancel(t.Context())
		t.Cleanup(func() { go func() { _ = conn.Close(parent) }() })
	})
	if len(name) > 63 || !strings.HasPrefix(name, "novelgate_test_testdatabaseisdropped") {
		t.Errorf("name %q", name)
	}
	if got := query(t, testdb.ServerURL(t), `SELECT count(*)::text FROM pg_database WHERE datname = $1`,
		name); got != "0" {
		t.Errorf("%s is still there", name)
	}
}
