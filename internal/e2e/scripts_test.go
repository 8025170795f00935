package e2e_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"novelgate/internal/testdb"
)

// TestScripts runs each file of testdata/script on a database of its own, named by NOVELGATE_DATABASE_URL. The database
// is migrated unless the file's name begins with "empty_" or "own_"; with "own_" it is on a server of its own. The
// command "exits CODE PROGRAM ..." runs a program and wants it to end with that exit code.
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("find scripts: %d files, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newDatabase := testdb.New
			switch kind, _, _ := strings.Cut(name, "_"); kind {
			case "empty":
				newDatabase = testdb.NewEmpty
			case "own":
				newDatabase = func(t testing.TB) string { return testdb.NewServer(t, nil) }
			}
			database, binary := newDatabase(t), Binary(t)
			testscript.Run(t, testscript.Params{
				Files:               []string{file},
				RequireExplicitExec: true,
				Cmds:                map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": wantExit},
				Setup: func(env *testscript.Env) error {
					env.Setenv("PATH", filepath.Dir(binary)+string(filepath.ListSeparator)+os.Getenv("PATH"))
					env.Setenv("NOVELGATE_DATABASE_URL", database)
					env.Setenv("OTHER_DATABASE_URL", "postgres://nobody@127.0.0.1:1/nothing?connect_timeout=2")
					env.Setenv("GOCOVERDIR", os.Getenv("GOCOVERDIR"))
					return nil
				},
			})
		})
	}
}

// wantExit is the script command "exits".
func wantExit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ...")
	}
	got := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var ended *exec.ExitError
		if !errors.As(err, &ended) {
			ts.Fatalf("%s: %v", strings.Join(args[1:], " "), err)
		}
		got = strconv.Itoa(ended.ExitCode())
	}
	if got != args[0] {
		ts.Fatalf("%s ends with %s, want %s", strings.Join(args[1:], " "), got, args[0])
	}
}
