package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"novelgate/internal/testdb"
	"novelgate/migrations"
)

const insufficientPrivilege = "42501"

func connect(t *testing.T, databaseURL string) *pgx.Conn {
	t.Helper()
	conn := testdb.Must(pgx.Connect(t.Context(), databaseURL))(t)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func execute(t *testing.T, conn *pgx.Conn, statement string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func names(t *testing.T, conn *pgx.Conn, query string) []string {
	t.Helper()
	rows := testdb.Must(conn.Query(t.Context(), query))(t)
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(found) == 0 {
		t.Fatalf("%s: found %v, %v", query, found, err)
	}
	return found
}

// TestAnalystsReadTheViewsAndNothingElse: analysts cannot read other tables, call other functions, or write.
func TestAnalystsReadTheViewsAndNothingElse(t *testing.T) {
	t.Parallel()
	// Not testdb.New: CREATE DATABASE does not copy the rights on the database that a migration has changed.
	databaseURL := testdb.NewEmpty(t)
	if _, err := migrations.Apply(t.Context(), databaseURL); err != nil {
		t.Fatal(err)
	}
	owner := connect(t, databaseURL)
	// Later objects are covered, too.
	execute(t, owner, `CREATE VIEW analytics.later AS SELECT 1 AS n; CREATE TABLE later (n integer);
		CREATE FUNCTION later() RETURNS integer LANGUAGE sql AS 'SELECT 1'`)
	views := names(t, owner,
		`SELECT c.oid::regclass::text FROM pg_class c WHERE c.relnamespace = 'analytics'::regnamespace`)
	tables := names(t, owner,
		`SELECT c.oid::regclass::text FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm')`)
	functions := names(t, owner, `SELECT p.proname || '(' || array_to_string(array_fill('NULL'::text, ARRAY[p.pronargs::integer]), ', ') || ')'
		FROM pg_proc p WHERE p.pronamespace IN ('public'::regnamespace, 'analytics'::regnamespace)
		    AND p.prorettype <> 'trigger'::regtype
		AND p.oid NOT IN (SELECT d.refobjid FROM pg_depend d JOIN pg_rewrite w ON w.oid = d.objid
		    JOIN pg_class v ON v.oid = w.ev_class
			WHERE d.refclassid = 'pg_proc'::regclass AND v.relnamespace = 'analytics'::regnamespace)`) // whoever reads a view may call what it calls

	callable := names(t, owner, `SELECT p.proname::text FROM pg_proc p WHERE p.pronamespace IN ('public'::regnamespace, 'analytics'::regnamespace)
		AND has_function_privilege('novelgate_analytics', p.oid, 'EXECUTE')`)
	if diff := cmp.Diff([]string{"post_is_hidden"}, callable); diff != "" {
		t.Errorf("what docs/operators.md says that analysts may call (-want +got)\n%s", diff)
	}

	analyst := connect(t, databaseURL+"&options=-c%20role%3Dnovelgate_analytics") // as docs/analytics.md says
	for _, view := range views {
		execute(t, analyst, `SELECT * FROM `+view)
	}
	refused := []string{
		`CREATE TABLE mine (n integer)`, `CREATE TABLE analytics.mine (n integer)`, `CREATE TEMPORARY TABLE mine (n integer)`,
		`CREATE SCHEMA mine`, `CREATE VIEW analytics.mine AS SELECT 1`,
		`CREATE FUNCTION mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'`,
		`ALTER VIEW analytics.posts RENAME TO mine`, `DROP VIEW analytics.posts`,
		`COMMENT ON VIEW analytics.posts IS ''`, `CREATE ROLE novelgate_mine`, `COPY (SELECT 1) TO PROGRAM 'true'`,
		// Views that are writable for their owner.
		`INSERT INTO analytics.integrations (integration_id, name) VALUES (gen_random_uuid(), 'Mallory')`,
		`UPDATE analytics.novels SET title = ''`, `DELETE FROM analytics.novels`,
		`SELECT FROM analytics.daily_facts FOR UPDATE`,
	}
	for _, table := range tables {
		refused = append(refused, `SELECT * FROM `+table, `INSERT INTO `+table+` DEFAULT VALUES`, `DELETE FROM `+table,
			`LOCK TABLE `+table)
		if table != "event_log" { // a view
			refused = append(refused, `TRUNCATE `+table)
		}
	}
	for _, function := range functions {
		refused = append(refused, `SELECT public.`+function)
	}
	for _, statement := range refused {
		tx := testdb.Begin(t, analyst)
		_, err := tx.Exec(t.Context(), statement)
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code != insufficientPrivilege {
			t.Errorf("%s: %v", statement, err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMigratingWithoutTheRightToMakeRoles creates the role later, as documented.
func TestMigratingWithoutTheRightToMakeRoles(t *testing.T) {
	t.Parallel()
	// On its own server, because roles belong to all databases of a server.
	server := testdb.NewServer(t, nil)
	admin := connect(t, server)
	execute(t, admin, `CREATE ROLE plain LOGIN`)
	execute(t, admin, `CREATE DATABASE theirs OWNER plain`)
	execute(t, admin, `CREATE DATABASE foreign_soil`)

	theirs := inDatabase(t, server, "theirs")
	asPlain := inDatabase(t, server, "theirs", "plain")
	result, err := migrations.Apply(t.Context(), asPlain)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Notices) != 1 || !strings.Contains(result.Notices[0], "novelgate_analytics") {
		t.Errorf("notices %q", result.Notices)
	}
	execute(t, connect(t, asPlain), `SELECT FROM analytics.posts`)

	// An administrator creates the role.
	statements := documented(t)
	execute(t, connect(t, theirs), strings.ReplaceAll(statements, "SERVICE", "plain"))
	execute(t, connect(t, asPlain), `CREATE VIEW analytics.later AS SELECT 1 AS n`)
	analyst := connect(t, theirs)
	execute(t, analyst, `SET ROLE novelgate_analytics`)
	for _, view := range []string{"posts", "freshness", "later"} {
		execute(t, analyst, `SELECT FROM analytics.`+view)
	}

	// In this database the service's role may create objects, but does not own the database.
	execute(t, admin, `GRANT CREATE ON DATABASE foreign_soil TO plain`)
	execute(t, connect(t, inDatabase(t, server, "foreign_soil")), `GRANT CREATE ON SCHEMA public TO plain`)
	result, err = migrations.Apply(t.Context(), inDatabase(t, server, "foreign_soil", "plain"))
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Notices) != 2 {
		t.Errorf("notices %q", result.Notices)
	}
}

// TestDatabasesAreMigratedTogether: concurrent migrations race for the role.
func TestDatabasesAreMigratedTogether(t *testing.T) {
	t.Parallel()
	server := testdb.NewServer(t, nil)
	admin := connect(t, server)
	failures := make(chan error)
	const databases = 6
	for i := range databases {
		execute(t, admin, fmt.Sprintf(`CREATE DATABASE d%d`, i))
	}
	for i := range databases {
		go func() {
			_, err := migrations.Apply(context.Background(), inDatabase(t, server, fmt.Sprintf("d%d", i)))
			failures <- err
		}()
	}
	for range databases {
		if err := <-failures; err != nil {
			t.Error(err)
		}
	}
}

func inDatabase(t *testing.T, serverURL, database string, user ...string) string {
	t.Helper()
	parsed, err := url.Parse(serverURL)
	if err != nil {
		t.Error(err)
		return ""
	}
	parsed.Path = "/" + database
	query := parsed.Query()
	for _, name := range user {
		parsed.User = nil
		query.Set("user", name)
	}
	parsed.RawQuery = query.Encode()
	return parsed.String()
}

// documented returns the statements of docs/operators.md that create the role.
func documented(t *testing.T) string {
	t.Helper()
	text := testdb.Must(os.ReadFile("../docs/operators.md"))(t)
	block := regexp.MustCompile("(?s)```sql\n(CREATE ROLE novelgate_analytics.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatal("docs/operators.md does not say how to make the role")
	}
	return string(block[1])
}
