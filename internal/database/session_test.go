package database_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
	"novelgate/migrations"
)

// pinned are settings on which the code relies, with other values that a role, a database or a URL may have.
var pinned = []struct{ name, want, other string }{
	{"search_path", "public", "elsewhere, pg_catalog"},
	{"client_encoding", "UTF8", "LATIN1"},
	{"timezone", "UTC", "Asia/Kathmandu"},
	{"datestyle", "ISO, MDY", "German, DMY"},
	{"intervalstyle", "postgres", "iso_8601"},
	{"extra_float_digits", "1", "-3"},
	{"standard_conforming_strings", "on", "off"},
	{"quote_all_identifiers", "off", "on"},
	{"default_transaction_isolation", "read committed", "serializable"},
	{"default_transaction_deferrable", "off", "on"},
	{"statement_timeout", "0", "1234ms"},
	{"idle_session_timeout", "0", "1234s"},
	{"idle_in_transaction_session_timeout", "0", "1234s"},
}

// strangeRole returns a database URL for a role with unusual settings, and with a schema that hides tables and
// functions of the code.
func strangeRole(t *testing.T) string {
	t.Helper()
	direct := testdb.NewEmpty(t)
	parsed := testdb.Must(url.Parse(direct))(t)
	owner := testdb.Connect(t, direct)
	role := parsed.Path[1:] // unique on the server
	statements := []string{
		fmt.Sprintf(`CREATE ROLE %q LOGIN SUPERUSER`, role),
		`CREATE SCHEMA elsewhere`,
		`CREATE TABLE elsewhere.events (nothing text)`,
		`CREATE FUNCTION elsewhere.set_config(text, text, boolean) RETURNS text LANGUAGE sql AS 'SELECT ''not this one'''`,
	}
	for _, setting := range pinned {
		statements = append(statements, fmt.Sprintf(`ALTER ROLE %q SET %s = %s`, role, setting.name, setting.other))
		if setting.name != "search_path" {
			statements[len(statements)-1] = fmt.Sprintf(`ALTER ROLE %q SET %s = '%s'`, role, setting.name, setting.other)
		}
	}
	for _, statement := range statements {
		testdb.Exec(t, owner, statement)
	}
	t.Cleanup(func() {
		server := testdb.Connect(t, testdb.ServerURL(t))
		if _, err := server.Exec(context.Background(), fmt.Sprintf(`DROP DATABASE %q WITH (FORCE)`, role)); err != nil {
			t.Error(err)
		}
		if _, err := server.Exec(context.Background(), fmt.Sprintf(`DROP ROLE %q`, role)); err != nil {
			t.Error(err)
		}
	})
	parsed.User = url.User(role)
	query := parsed.Query()
	query.Del("user")
	query.Set("DateStyle", "SQL")
	query.Set("statement_timeout", "4321")
	parsed.RawQuery = query.Encode()
	return parsed.String()
}

// TestEverySessionIsPinned opens connections in every way that the program does, for a role with unusual settings.
func TestEverySessionIsPinned(t *testing.T) {
	t.Parallel()
	strange := strangeRole(t)
	if _, err := migrations.Apply(t.Context(), strange); err != nil {
		t.Fatal(err)
	}
	pools := testdb.Must(database.Open(t.Context(), strange))(t)
	defer pools.Close()
	settings := map[string]func(name string) (string, error){}
	all := pools.Named()
	for name, open := range map[string]func(context.Context, string) (*pgxpool.Pool, error){
		"commands'": database.OpenGeneral, "history of a command": database.OpenHistory,
	} {
		pool := testdb.Must(open(t.Context(), strange))(t)
		defer pool.Close()
		all[name] = pool
	}
	for name, pool := range all {
		settings[name] = func(setting string) (value string, err error) {
			return value, pool.QueryRow(t.Context(), `SELECT pg_catalog.current_setting($1)`, setting).Scan(&value)
		}
	}
	config := pools.General.Config().ConnConfig
	other := stdlib.OpenDB(*config)
	defer other.Close() //nolint:errcheck // a test's
	settings["other"] = func(setting string) (value string, err error) {
		return value, other.QueryRowContext(t.Context(), `SELECT pg_catalog.current_setting($1)`, setting).Scan(&value)
	}
	reading := testdb.Must(eventlog.Connect(t.Context(), config))(t)
	defer reading.Close(context.Background()) //nolint:errcheck // a test's
	settings["that read the log"] = func(setting string) (value string, err error) {
		return value, reading.QueryRow(t.Context(), `SELECT pg_catalog.current_setting($1)`, setting).Scan(&value)
	}
	for place, get := range settings {
		for _, setting := range pinned {
			want := setting.want
			if limit, ok := database.LockLimits[setting.name]; ok && place == "append" {
				want = limit
			}
			if got, err := get(setting.name); err != nil || got != want {
				t.Errorf("%s: %s is %q (%v), want %q", place, setting.name, got, err, want)
			}
		}
	}
}

// TestApplicationName: the name in the settings replaces that in the URL, which stays without one.
func TestApplicationName(t *testing.T) {
	t.Parallel()
	const url = "postgres://ada@db.example.com/novelgate?application_name=mine"
	for want, settings := range map[string]map[string]string{"mine": nil, "pool": {"application_name": "pool"}} {
		config := testdb.Must(database.ParseConfig(url, settings))(t)
		if got := config.ConnConfig.RuntimeParams["application_name"]; got != want {
			t.Errorf("application_name is %q with the settings %v", got, settings)
		}
	}
}

// TestReadOnlySessionsAreLeft: a session that began while the database was read-only is closed after a failed write.
func TestReadOnlySessionsAreLeft(t *testing.T) {
	t.Parallel()
	databaseURL := testdb.New(t)
	owner := testdb.Connect(t, databaseURL)
	execute := func(statement string) {
		t.Helper()
		testdb.Exec(t, owner, statement)
	}
	name := owner.Config().Database
	execute(`CREATE TABLE written (nothing text)`)
	execute(fmt.Sprintf(`ALTER DATABASE %q SET default_transaction_read_only = on`, name))
	pool := openGeneral(t, databaseURL)
	if _, err := pool.Exec(t.Context(), `INSERT INTO written VALUES ('')`); err == nil {
		t.Fatal("a read-only database was written to")
	}
	execute(fmt.Sprintf(`ALTER DATABASE %q RESET default_transaction_read_only`, name))
	if _, err := pool.Exec(t.Context(), `INSERT INTO written VALUES ('')`); err != nil {
		t.Errorf("the session of before is used again: %v", err)
	}
}

// TestCommitsWait: acknowledged data waits for the disk and for synchronous standbys, whatever the settings of the
// database are at the time of the connection. The operator may choose longer waits.
func TestCommitsWait(t *testing.T) {
	t.Parallel()
	pools := open(t)
	name := pools.General.Config().ConnConfig.Database
	for chosen, want := range map[string]string{
		"off": "on", "local": "on", "on": "on", "remote_write": "remote_write", "remote_apply": "remote_apply",
	} {
		testdb.Exec(t, pools.General, fmt.Sprintf(`ALTER DATABASE %q SET synchronous_commit = %s`, name, chosen))
		for pool, p := range pools.Named() {
			var got string
			p.Reset()
			if err := p.QueryRow(t.Context(), `SHOW synchronous_commit`).Scan(&got); err != nil || got != want {
				t.Errorf("%s, where the database says %s: %s (%v), want %s", pool, chosen, got, err, want)
			}
		}
	}
	config := pools.General.Config().ConnConfig
	testdb.Exec(t, pools.General, fmt.Sprintf(`ALTER DATABASE %q SET synchronous_commit = off`, name))
	weak := testdb.Must(database.OpenGeneral(t.Context(), config.ConnString()))(t)
	defer weak.Close()
	if err := database.CheckServer(t.Context(), weak, false); !errors.Is(err, database.ErrNotDurable) {
		t.Errorf("a start on it: %v, want ErrNotDurable", err)
	}
}
