package migrations_test

import (
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
			if err := migrations.Up(t.Context(), url); !errors.Is(err, database.ErrOldForm) {
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
		if err := migrations.Up(t.Context(), url); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestStepsAreNumbered: without gaps, and each can be reverted.
func TestStepsAreNumbered(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^[0-9]{5}_[a-z_]+$`)
	for i, step := range steps(t) {
		if !form.MatchString(step) || !strings.HasPrefix(step, strings.Repeat("0", 4)+string(rune('1'+i))) && i < 9 {
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

// TestTablesAreDescribed: every table and column has a comment.
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

func TestHash(t *testing.T) {
	t.Parallel()
	if got := migrations.Hash(); !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(got) || got != migrations.Hash() {
		t.Errorf("got %q", got)
	}
}
