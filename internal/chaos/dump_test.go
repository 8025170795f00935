package chaos_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"novelgate/migrations"
)

// dumpAndRestore moves a database into the empty one of another cluster, as an operator does. Where PostgreSQL came
// without pg_dump, the tables are copied by COPY.
func dumpAndRestore(t testing.TB, from, to *server) {
	t.Helper()
	dump, restore := tool(t, from, "pg_dump"), tool(t, to, "pg_restore")
	if dump == "" || restore == "" {
		copyTables(t, from.url(), to.url())
		return
	}
	file := filepath.Join(t.TempDir(), "novelgate.dump")
	execute(t, to.url(), `CREATE ROLE novelgate_analytics NOLOGIN`)
	carryOut(t, dump, "--format=custom", "--file="+file, "--dbname="+from.url())
	carryOut(t, restore, "--exit-on-error", "--dbname="+to.url(), file)
}

// tool finds a program beside that of a running server; "" when there is none.
func tool(t testing.TB, s *server, name string) string {
	t.Helper()
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", postmaster(t, s.dir)))
	if err != nil {
		t.Fatalf("find the programs of PostgreSQL: %v", err)
	}
	path := filepath.Join(filepath.Dir(program), name)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

func carryOut(t testing.TB, program string, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, args...)
	if said, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(program), err, said)
	}
}

// copyTables migrates the database at to and fills its tables with what those at from have.
func copyTables(t testing.TB, from, to string) {
	t.Helper()
	ctx := context.Background()
	if err := migrations.Up(ctx, to); err != nil {
		t.Fatalf("migrate: %v", err)
	}
	source, target := connect(t, from), connect(t, to)
	defer func() { _ = source.Close(ctx); _ = target.Close(ctx) }()
	if _, err := source.Exec(ctx, `BEGIN ISOLATION LEVEL REPEATABLE READ`); err != nil {
		t.Fatalf("begin: %v", err)
	}
	rows, err := source.Query(ctx,
		`SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace`)
	if err != nil {
		t.Fatalf("list tables: %v", err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("list tables: %v", err)
	}
	guards := func(what string) string { return strings.Join(eachTable(tables, what), "; ") }
	if _, err := target.Exec(ctx, guards(`ALTER TABLE %s DISABLE TRIGGER ALL`)+`; TRUNCATE `+strings.Join(tables,
		", ")); err != nil {
		t.Fatalf("empty the tables: %v", err)
	}
	for _, table := range tables {
		var data bytes.Buffer
		if _, err := source.PgConn().CopyTo(ctx, &data, `COPY `+table+` TO STDOUT (FORMAT binary)`); err != nil {
			t.Fatalf("read %s: %v", table, err)
		}
		if _, err := target.PgConn().CopyFrom(ctx, &data, `COPY `+table+` FROM STDIN (FORMAT binary)`); err != nil {
			t.Fatalf("fill %s: %v", table, err)
		}
	}
	// The guards of the log and the ledger fire always; checks of foreign keys are as they come.
	const alwaysSQL = `DO $do$ DECLARE g record; BEGIN
		FOR g IN SELECT tgrelid::regclass AS of, tgname, tgisinternal FROM pg_trigger WHERE tgenabled = 'D' LOOP
			EXECUTE format('ALTER TABLE %s ENABLE %s TRIGGER %I', g.of, CASE WHEN g.tgisinternal THEN '' ELSE 'ALWAYS' END,
			    g.tgname);
		END LOOP; END $do$`
	if _, err := target.Exec(ctx, alwaysSQL); err != nil {
		t.Fatalf("enable the triggers: %v", err)
	}
}

func eachTable(tables []string, format string) []string {
	statements := slices.Clone(tables)
	for i, table := range tables {
		statements[i] = fmt.Sprintf(format, table)
	}
	return statements
}
