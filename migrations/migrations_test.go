package migrations_test

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"novelgate/internal/database"
	"novelgate/internal/testdb"
	"novelgate/migrations"
)

func TestMain(m *testing.M) { os.Exit(testdb.Run(m)) }

func steps(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("*.sql")
	if err != nil || len(paths) == 0 {
		t.Fatalf("found %d steps, %v", len(paths), err)
	}
	for i := range paths {
		paths[i] = strings.TrimSuffix(paths[i], ".sql")
	}
	return paths
}

func TestApply(t *testing.T) {
	t.Parallel()
	url := testdb.NewEmpty(t)
	all := steps(t)
	number, _, _ := strings.Cut(all[len(all)-1], "_")
	last := testdb.Must(strconv.ParseInt(number, 10, 64))(t)
	for _, step := range []struct {
		url  string
		want migrations.Result
	}{
		{url, migrations.Result{Version: last, Applied: all}},
		{url, migrations.Result{Version: last, Applied: []string{}}},
		{url + "&pool_ping_timeout=2s", migrations.Result{Version: last, Applied: []string{}}}, // what is for the pools
	} {
		got := testdb.Must(migrations.Apply(t.Context(), step.url))(t)
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	// Each database has a secret of its own: two random UUIDs.
	if n := testdb.Value[int](t, testdb.Pool(t, url),
		`SELECT length(value) FROM settings WHERE name = 'author_secret'`); n != 72 {
		t.Errorf("the secret has %d characters", n)
	}
}

// TestOlderProgram: a program that is older than the schema says so.
func TestOlderProgram(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	testdb.Exec(t, testdb.Pool(t, url), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (1000, true)`)
	got := testdb.Must(migrations.Apply(t.Context(), url))(t)
	if len(got.Notices) != 1 || !strings.Contains(got.Notices[0], "newer version of novelgate") ||
		got.Version != 1000 || len(got.Applied) > 0 {
		t.Errorf("%+v", got)
	}
}

// TestWaitsAreTold: who waits for the lock of migrations learns within seconds which session has it.
func TestWaitsAreTold(t *testing.T) {
	t.Parallel()
	url := testdb.NewEmpty(t)
	holder := testdb.Connect(t, url)
	testdb.Exec(t, holder, `SELECT set_config('application_name', 'forgotten', false), pg_advisory_lock($1)`,
		lock.DefaultLockID)
	said, ended := make(chan string, 1), make(chan error, 1)
	ctx, watch := database.StartWatch(t.Context(), func(cause string) { said <- cause })
	defer watch.Stop()
	go func() {
		_, err := migrations.Apply(ctx, url)
		ended <- err
	}()
	want := fmt.Sprintf("the lock of migrations, held by process %d (forgotten, idle since ", holder.PgConn().PID())
	if got := <-said; !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	testdb.Exec(t, holder, `SELECT pg_advisory_unlock_all()`)
	testdb.NoError(t, <-ended)
}

// TestReplicasStartTogether: one of them migrates; the others find nothing to do.
func TestReplicasStartTogether(t *testing.T) {
	t.Parallel()
	const replicas = 4
	url := testdb.NewEmpty(t)
	var wg sync.WaitGroup
	applied := make([]int, replicas)
	for i := range replicas {
		wg.Go(func() {
			result, err := migrations.Apply(t.Context(), url)
			if err != nil {
				t.Error(err)
			}
			applied[i] = len(result.Applied)
		})
	}
	wg.Wait()
	total := 0
	for _, n := range applied {
		total += n
	}
	if total != len(steps(t)) {
		t.Errorf("applied %v, want %d in all", applied, len(steps(t)))
	}
}

// TestOldFormIsRefused: a log in the form of an unreleased version is refused, also with a schema version that this
// version does not know, and nothing in its database changes.
func TestOldFormIsRefused(t *testing.T) {
	t.Parallel()
	const content = `SELECT string_agg(line, E'\n' ORDER BY line) FROM (
		SELECT format('%s %s %s', c.oid::regclass, a.attname, a.atttypid::regtype) FROM pg_class AS c
		JOIN pg_attribute AS a ON a.attrelid = c.oid WHERE c.relnamespace = 'public'::regnamespace
		UNION ALL SELECT n.nspname FROM pg_namespace AS n
		UNION ALL SELECT p.proname FROM pg_proc AS p WHERE p.pronamespace = 'public'::regnamespace
		UNION ALL SELECT e::text FROM events AS e
		UNION ALL SELECT g::text FROM goose_db_version AS g) AS found (line)`
	for name, version := range map[string]int{"of a few steps": 1, "of all steps": 43, "of unknown steps": 99} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := testdb.NewEmpty(t)
			conn := connect(t, url)
			execute(t, conn, fmt.Sprintf(`CREATE TABLE events (transaction_id xid8, position integer, event_id text, personal_digest bytea);
				INSERT INTO events VALUES ('700', 0, 'kept', NULL);
				CREATE TABLE goose_db_version (id serial, version_id bigint, is_applied boolean, tstamp timestamp DEFAULT now());
				INSERT INTO goose_db_version (version_id, is_applied) SELECT n, true FROM generate_series(0, %d) AS n`, version))
			before := testdb.Value[string](t, conn, content)
			if _, err := migrations.Apply(t.Context(), url); !errors.Is(err, database.ErrOldForm) {
				t.Errorf("migrate: %v, want ErrOldForm", err)
			}
			if err := migrations.CheckStandby(t.Context(), conn); !errors.Is(err, database.ErrOldForm) {
				t.Errorf("a standby: %v, want ErrOldForm", err)
			}
			if diff := cmp.Diff(before, testdb.Value[string](t, conn, content)); diff != "" {
				t.Errorf("the database has changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestApplyFails(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"broken URL":      "postgres://%zz",
		"nobody is there": "postgres://127.0.0.1:1/none?connect_timeout=1",
	} {
		if _, err := migrations.Apply(t.Context(), url); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestStepsAreNumbered: without gaps, and each can be reverted.
func TestStepsAreNumbered(t *testing.T) {
	t.Parallel()
	for i, step := range steps(t) {
		if form := fmt.Sprintf(`^%05d_[a-z_]+$`, i+1); !regexp.MustCompile(form).MatchString(step) {
			t.Errorf("step %d is named %s", i+1, step)
		}
		content := testdb.Must(os.ReadFile(step + ".sql"))(t)
		for _, part := range []string{"-- +goose Up\n", "-- +goose Down\n"} {
			if strings.Count(string(content), part) != 1 {
				t.Errorf("%s has no single %q", step, part)
			}
		}
	}
}

// schemaSQL describes everything that steps create, except the rights on the database and the rows.
const schemaSQL = `
WITH schemas AS (SELECT n.* FROM pg_namespace AS n WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'),
    relations AS (SELECT c.* FROM schemas AS n JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relname !~ '^goose_')
SELECT concat_ws(' ', 'schema', nspname, nspacl, obj_description(oid, 'pg_namespace')) FROM schemas
UNION ALL SELECT concat_ws(' ', 'relation', oid::regclass, relkind, reloptions, relacl,
    obj_description(oid, 'pg_class'), CASE relkind WHEN 'v' THEN pg_get_viewdef(oid)
        WHEN 'i' THEN pg_get_indexdef(oid) END) FROM relations
UNION ALL SELECT concat_ws(' ', 'column', c.oid::regclass, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod),
    a.attnotnull, a.attstorage, a.attidentity, pg_get_expr(d.adbin, d.adrelid), col_description(c.oid, a.attnum))
    FROM relations AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
    LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
UNION ALL SELECT concat_ws(' ', 'constraint', c.oid::regclass, x.conname, pg_get_constraintdef(x.oid))
    FROM relations AS c JOIN pg_constraint AS x ON x.conrelid = c.oid
UNION ALL SELECT concat_ws(' ', 'trigger', t.tgenabled, pg_get_triggerdef(t.oid))
    FROM relations AS c JOIN pg_trigger AS t ON t.tgrelid = c.oid AND NOT t.tgisinternal
UNION ALL SELECT concat_ws(' ', 'function', pg_get_functiondef(p.oid), p.proacl, obj_description(p.oid, 'pg_proc'))
    FROM pg_proc AS p JOIN schemas AS n ON n.oid = p.pronamespace
UNION ALL SELECT concat_ws(' ', 'rights on later objects', defaclnamespace::regnamespace, defaclobjtype, defaclacl)
    FROM pg_default_acl
ORDER BY 1`

// TestStepsAreReversible: reverting a step leaves the schema from before it, and applying it again gives the same
// schema as the first time.
func TestStepsAreReversible(t *testing.T) {
	t.Parallel()
	url := testdb.NewEmpty(t)
	conn := connect(t, url)
	db := testdb.Must(sql.Open("pgx", url))(t)
	t.Cleanup(func() { _ = db.Close() })
	provider := testdb.Must(goose.NewProvider(goose.DialectPostgres, db, os.DirFS(".")))(t)

	schemas := [][]string{testdb.Values[string](t, conn, schemaSQL)} // after each step
	expect := func(after string, want []string) {
		t.Helper()
		if diff := cmp.Diff(want, testdb.Values[string](t, conn, schemaSQL)); diff != "" {
			t.Errorf("the schema after %s (-want +got):\n%s", after, diff)
		}
	}
	for i, step := range steps(t) {
		testdb.Must(provider.UpByOne(t.Context()))(t)
		schemas = append(schemas, testdb.Values[string](t, conn, schemaSQL))
		if cmp.Equal(schemas[i], schemas[i+1]) {
			t.Errorf("%s changes nothing that this test sees", step)
		}
		testdb.Must(provider.Down(t.Context()))(t)
		expect("the Down of "+step, schemas[i])
		testdb.Must(provider.UpByOne(t.Context()))(t)
		expect("a second Up of "+step, schemas[i+1])
	}
	testdb.Must(provider.DownTo(t.Context(), 0))(t)
	expect("the Down of all steps", schemas[0])
	testdb.Must(provider.Up(t.Context()))(t)
	expect("a second Up of all steps", schemas[len(schemas)-1])
}

// TestTablesAreDescribed: every table and view has a comment.
func TestTablesAreDescribed(t *testing.T) {
	t.Parallel()
	conn := testdb.Must(pgx.Connect(t.Context(), testdb.New(t)))(t)
	defer func() { _ = conn.Close(t.Context()) }()
	rows := testdb.Must(conn.Query(t.Context(), `SELECT c.oid::regclass::text FROM pg_class c
		WHERE c.relkind IN ('r', 'v') AND c.relnamespace::regnamespace::text IN ('public', 'analytics')
		AND c.relname <> 'goose_db_version' AND obj_description(c.oid) IS NULL`))(t)
	undescribed := testdb.Must(pgx.CollectRows(rows, pgx.RowTo[string]))(t)
	if len(undescribed) > 0 {
		t.Errorf("no comment on %v", undescribed)
	}
}

// TestErasureIsInlined: a call of the function for each erased event would double the time of an erasure, which holds
// the lock of the log.
func TestErasureIsInlined(t *testing.T) {
	t.Parallel()
	pool := testdb.Pool(t, testdb.New(t))
	plan := strings.Join(testdb.Values[string](t, pool, `EXPLAIN (VERBOSE) SELECT personal_digest(salt, personal) FROM events`), "\n")
	if strings.Contains(plan, "personal_digest(") || !strings.Contains(plan, "sha256(") {
		t.Error(plan)
	}
}
