package e2e_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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

// noText matches a flag without text in --help.
var noText = regexp.MustCompile(`(?m)^ +(?:-\w, +)?--\S+\s+(?:\(\$|(?:-\w, +)?--\S+ |\z)`)

// TestHelp: every command has a --help, and every flag its text.
func TestHelp(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	_, tree, _ := strings.Cut(RunCLI(t, "", "--help").Stdout, "Commands:\n")
	var path []string // of the command in the line
	for line := range strings.Lines(tree) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		depth := (len(line) - len(strings.TrimLeft(line, " "))) / 2
		if depth < 1 || depth > 2 || strings.ContainsAny(name, "<[") {
			continue // an argument, or more text
		}
		path = append(path[:depth-1], name)
		out := RunCLI(t, "", append(slices.Clone(path), "--help")...)
		if !strings.HasPrefix(out.Stdout, "Usage: novelgate "+strings.Join(path, " ")) || out.Code != 0 || out.Stderr != "" {
			t.Errorf("%v --help ended with %d: %s %s", path, out.Code, out.Stdout, out.Stderr)
		}
		if flag := noText.FindString(out.Stdout); flag != "" {
			t.Errorf("%v --help says nothing of%s", path, flag)
		}
	}
	if len(path) == 0 {
		t.Errorf("no commands: %s", tree)
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

// A wrong command line ends with 80 before anything is done: here there is no database to do it with. What is wrong,
// and where the help is, are on standard error; a program that reads standard output finds nothing.
func TestWrongUsage(t *testing.T) {
	t.Parallel()
	const nowhere = "postgres://nobody@127.0.0.1:1/nothing"
	for _, test := range []struct{ command, want string }{
		{"", "expected one of"},
		{"serve nonsense", "nonsense"},
		{"integration list --json --no-such-flag", "--no-such-flag"},

		{"novel list --limit=-1", "--limit: must not be negative; 0 shows all"},
		{"author list Acme --json --limit=-5", "--limit: must not be negative"},
		{"events list --limit=-1", "--limit: must not be negative"},
		{"events access-log --limit=-1", "--limit: must not be negative"},
		{"novel list --limit=many", "--limit: "},

		{"key issue Acme --expires-in 0", "--expires-in: must be more than 0; without the flag the key does not expire"},
		{"key issue Acme --expires-in=-1h", "--expires-in: must be more than 0"},
		{"staff create Ada --expires-in 0s", "--expires-in: must be more than 0"},
		{"auditor create Ada --expires-in 30", `--expires-in: must be a duration such as 720h or 90m, not "30"`},

		{
			"integration limit Acme",
			"nothing to change: give --posts-per-minute, --novels-per-minute, --novel-updates-per-minute or --lines-per-minute",
		},
		{"integration capability Acme", "nothing to change: give --enable or --disable"},
		{
			"integration capability Acme --enable posts --disable novels --disable posts",
			"posts cannot be both enabled and disabled",
		},
		{"novel edit Genji --reason why", "nothing to change: give --author, --synopsis, "},

		{"serve --ledger-signer /nowhere/at/all/signer", "--ledger-signer: there is no directory /nowhere/at/all"},
		{"events list --from yesterday", "--from: must be a time with its zone, such as 2026-01-31T12:00:00Z"},
		{"serve --log-level loud", "--log-level: must be debug, info, warn or error"},
		{"novel list --state paused", `--state must be one of "pending","approved"`},
		{"author list Acme --linked perhaps", `--linked must be one of "true","false"`},
	} {
		t.Run(test.command, func(t *testing.T) {
			t.Parallel()
			out := RunCLI(t, nowhere, strings.Fields(test.command)...)
			if out.Code != 80 {
				t.Errorf("exit code %d, want 80", out.Code)
			}
			if out.Stdout != "" {
				t.Errorf("on standard output:\n%s", out.Stdout)
			}
			first, second, _ := strings.Cut(out.Stderr, "\n")
			if !strings.HasPrefix(first, "novelgate: ") || !strings.Contains(first, test.want) {
				t.Errorf("want %q on the first line of standard error:\n%s", test.want, out.Stderr)
			}
			// Of two commands only one is where the mistake is: the help is that of the words that were understood.
			command, ok := strings.CutSuffix(strings.TrimPrefix(second, "Run `novelgate"), " --help` for usage.\n")
			if !ok || !strings.HasPrefix(test.command, strings.TrimPrefix(command, " ")) {
				t.Errorf("want where to find the help, and nothing else, on the second line of standard error:\n%s", out.Stderr)
			}
		})
	}
}
