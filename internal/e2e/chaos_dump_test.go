package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// dumpAndRestore moves a database into the empty one of another cluster, as an operator does. Where PostgreSQL came
// without pg_dump the test is skipped.
func dumpAndRestore(t testing.TB, from, to *server) {
	t.Helper()
	dump, restore := tool(t, from, "pg_dump"), tool(t, to, "pg_restore")
	if dump == "" || restore == "" {
		t.Skip("this PostgreSQL has no pg_dump")
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
