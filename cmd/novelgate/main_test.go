package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"

	"novelgate/docs"
	"novelgate/internal/database"
	"novelgate/internal/system"
	"novelgate/internal/testdb"
)

// runHere runs the program in this process, without a database.
func runHere(args ...string) (stdout, stderr string, code int) {
	var out, err strings.Builder
	code = run(context.Background(), args, &out, &err)
	return out.String(), err.String(), code
}

var update = flag.Bool("update", false, "add new commands, flags and variables to testdata/cli.txt")

// TestCommands: every command, or its noun, can run. Arguments, flags, values of flags and environment variables of
// testdata/cli.txt are there, and no others are required.
func TestCommands(t *testing.T) {
	t.Parallel()
	parser, err := kong.New(&program{}, kong.Name("novelgate"), kong.Vars{"data_dir": "", "version": ""})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, leaf := range parser.Model.Leaves(false) {
		if commandOf(leaf) == nil {
			t.Errorf("%s cannot run", leaf.FullPath())
		}
		lines = append(lines, "novelgate "+strings.TrimSuffix(leaf.Summary(), " [flags]"))
		values := func(of string, value *kong.Value) {
			for one := range value.EnumMap() {
				if one != "" {
					lines = append(lines, leaf.FullPath()+" "+of+"="+one)
				}
			}
		}
		for _, argument := range leaf.Positional {
			values("<"+argument.Name+">", argument)
		}
		for _, flag := range slices.Concat(leaf.AllFlags(false)...) {
			if name := "--" + flag.Name; !flag.IsBool() {
				lines = append(lines, leaf.FullPath()+" "+name+"=…")
				values(name, flag.Value)
			} else if name != "--help" && name != "--version" {
				lines = append(lines, leaf.FullPath()+" "+name)
			}
			for _, variable := range flag.Envs {
				lines = append(lines, leaf.FullPath()+" --"+flag.Name+" $"+variable)
			}
		}
	}
	testdb.Kept(t, "testdata/cli.txt", lines, *update)
}

// TestVersion: the program, the changelog and the description of the interface have the same version.
func TestVersion(t *testing.T) {
	t.Parallel()
	said, _, _ := runHere("--version")
	changelog, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	for where, match := range map[string][]string{
		"--version":    regexp.MustCompile(`^novelgate (\S+) \(`).FindStringSubmatch(said),
		"changelog":    regexp.MustCompile(`(?m)^## (\d\S*) - \d{4}-\d\d-\d\d$`).FindStringSubmatch(string(changelog)),
		"openapi.yaml": regexp.MustCompile(`(?m)^  version: (\S+)$`).FindStringSubmatch(string(docs.OpenAPI)),
	} {
		if match == nil || match[1] != version {
			t.Errorf("%s has %q, want %s", where, match, version)
		}
	}
}

// TestOutcomes: a change whose outcome is unknown has a command that shows it.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	parser, err := kong.New(&program{}, kong.Vars{"data_dir": "", "version": ""})
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{"sandbox": true, "analytics": true, "ledger": true, "events": true} // no changes to look for
	for _, leaf := range parser.Model.Leaves(false) {
		if noun := leaf.Parent.Name; outcomes[noun] == leaf.Path() {
			shown[noun] = true
		}
	}
	for _, noun := range parser.Model.Children {
		if len(noun.Children) > 0 && !shown[noun.Name] {
			t.Errorf("%q does not show the changes of %s", outcomes[noun.Name], noun.Name)
		}
	}
}

// noText matches a flag without text in --help.
var noText = regexp.MustCompile(`(?m)^ +(?:-\w, +)?--\S+\s+(?:\(\$|(?:-\w, +)?--\S+ |\z)`)

// TestHelp: every command has a --help, and every flag its text.
func TestHelp(t *testing.T) {
	t.Parallel()
	help, _, _ := runHere("--help")
	_, tree, _ := strings.Cut(help, "Commands:\n")
	var path []string // of the command in the line
	for line := range strings.Lines(tree) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		depth := (len(line) - len(strings.TrimLeft(line, " "))) / 2
		if depth < 1 || depth > 2 || strings.ContainsAny(name, "<[") {
			continue // an argument, or more text
		}
		path = append(path[:depth-1], name)
		stdout, stderr, code := runHere(append(slices.Clone(path), "--help")...)
		if !strings.HasPrefix(stdout, "Usage: novelgate "+strings.Join(path, " ")) || code != 0 || stderr != "" {
			t.Errorf("%v --help ended with %d: %s %s", path, code, stdout, stderr)
		}
		if flag := noText.FindString(stdout); flag != "" {
			t.Errorf("%v --help says nothing of%s", path, flag)
		}
	}
	if len(path) == 0 {
		t.Errorf("no commands: %s", tree)
	}
}

// TestWrongUsage: a wrong command line ends with 80 before anything is done. What is wrong, and where the help is, are
// on standard error; a program that reads standard output finds nothing.
func TestWrongUsage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ command, want string }{
		{"", "expected one of"},
		{"serve nonsense", "nonsense"},
		{"novel", "expected one of"},
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
			"nothing to change: give --posts-per-minute, --novels-per-minute or --lines-per-minute",
		},
		{"integration capability Acme", "nothing to change: give --enable or --disable"},
		{
			"integration capability Acme --enable posts --disable novels --disable posts",
			"posts cannot be both enabled and disabled",
		},
		{"novel edit Genji --reason why", "nothing to change: give --author, --synopsis, "},

		{"serve --ledger-signer /nowhere/at/all/signer", "--ledger-signer: there is no directory /nowhere/at/all"},
		{"serve --backup-dir /mnt --database-url postgres://db/n", "--backup-dir is for the embedded PostgreSQL"},
		{"backup /mnt --keep=-1", "--keep must be at least 1"},
		{"serve --listen 8080", "--listen: address 8080: missing port in address"},
		{"serve --ops-listen localhost", "--ops-listen: address localhost: missing port in address"},
		{"serve --public-url novels.example", `--public-url: "novels.example" is not an http or https address`},
		{"events list --from yesterday", "--from: must be a time with its zone, such as 2026-01-31T12:00:00Z"},
		{"serve --log-level loud", "--log-level: must be debug, info, warn or error"},
		{"novel list --state paused", `--state must be one of "pending","approved"`},
		{"author list Acme --linked perhaps", `--linked must be one of "true","false"`},
	} {
		t.Run(test.command, func(t *testing.T) {
			t.Parallel()
			stdout, stderr, code := runHere(strings.Fields(test.command)...)
			if code != 80 {
				t.Errorf("exit code %d, want 80", code)
			}
			if stdout != "" {
				t.Errorf("on standard output:\n%s", stdout)
			}
			first, second, _ := strings.Cut(stderr, "\n")
			if !strings.HasPrefix(first, "novelgate: ") || !strings.Contains(first, test.want) {
				t.Errorf("want %q on the first line of standard error:\n%s", test.want, stderr)
			}
			// Of two commands only one is where the mistake is: the help is that of the words that were understood.
			command, ok := strings.CutSuffix(strings.TrimPrefix(second, "Run `novelgate"), " --help` for usage.\n")
			if !ok || !strings.HasPrefix(test.command, strings.TrimPrefix(command, " ")) {
				t.Errorf("want where to find the help, and nothing else, on the second line of standard error:\n%s", stderr)
			}
		})
	}
}

// TestCheckDisk: a full disk fails, as one that is nearly full does.
func TestCheckDisk(t *testing.T) {
	t.Parallel()
	for free, want := range map[uint64]database.Status{
		0: database.Fail, 1 << 29: database.Fail, 5 << 30: database.Warn, 1 << 40: database.OK,
	} {
		if got := checkDisk(1<<50, free); got.Status != want {
			t.Errorf("%d bytes: %s, %s; want %s", free, got.Status, got.Found, want)
		}
	}
	if got := checkDisk(0, 0); got.Status != database.OK || got.Found != "the free space is unknown" {
		t.Errorf("unknown: %s, %s", got.Status, got.Found)
	}
}

// fullDisk refuses all writes.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestLostOutput: output that cannot be written is an error, and a key that is shown once says that it is lost.
func TestLostOutput(t *testing.T) {
	t.Parallel()
	key := newKey{KeyID: uuid.New(), Role: "auditor"}
	for _, asJSON := range []bool{false, true} {
		env := &environment{stdout: &output{Writer: fullDisk{}}, json: asJSON}
		if err := env.show(key.shown(nil)); !errors.Is(err, syscall.ENOSPC) ||
			!strings.Contains(err.Error(), "novelgate auditor revoke "+key.KeyID.String()) {
			t.Errorf("a key, JSON %t: %v", asJSON, err)
		}
		env = &environment{stdout: &output{Writer: fullDisk{}}, json: asJSON}
		if err := env.show(said(1, nil, "a sentence")); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("a sentence, JSON %t: %v", asJSON, err)
		}
	}
}

// TestAdvice: an error names the flag that helps, and the program once.
func TestAdvice(t *testing.T) {
	t.Parallel()
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(refusing.Close)
	file := filepath.Join(t.TempDir(), "lines.ndjson")
	line := `{"operation":"novels","idempotencyKey":"1","body":{"novel":"Genji"}}`
	if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]string{
		"novel list --data-dir " + t.TempDir():              "--data-dir",
		"import " + file + " --key x --url " + refusing.URL: "novelgate: 401 Unauthorized; to continue",
	} {
		if _, stderr, code := runHere(strings.Fields(command)...); code != 1 || !strings.HasPrefix(stderr, "novelgate: ") ||
			strings.Count(stderr, "novelgate: ") > 1 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, want %q:\n%s", command, code, want, stderr)
		}
	}
}

// TestReplaceFile: a regular file is replaced, also through a symbolic link, and anything else is written to. What a
// killed process has left of it is removed.
func TestReplaceFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, link, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	if err := errors.Join(
		os.WriteFile(file, []byte("before"), 0o600), os.Symlink(file, link), syscall.Mkfifo(pipe, 0o600),
	); err != nil {
		t.Fatal(err)
	}
	stale, used := filepath.Join(dir, ".file123"), filepath.Join(dir, ".file456")
	testdb.NoError(t, os.WriteFile(stale, nil, 0o600))
	locked := testdb.Must(system.Lock(used, os.O_RDWR|os.O_CREATE, syscall.LOCK_EX))(t)
	defer locked.Close() //nolint:errcheck // it was only locked
	write := func(w io.Writer) error { _, err := w.Write([]byte("after")); return err }
	if err := replaceFile(link, write); err != nil {
		t.Error(err)
	}
	read := make(chan string)
	go func() {
		got, _ := os.ReadFile(pipe)
		read <- string(got)
	}()
	if err := replaceFile(pipe, write); err != nil {
		t.Error(err)
	}
	if names := testdb.Must(filepath.Glob(filepath.Join(dir, ".file*")))(t); !slices.Equal(names, []string{used}) {
		t.Errorf("temporary files %q, want only the locked one of %q and %q", names, stale, used)
	}
	got, _ := os.ReadFile(file)
	linked, _ := os.Lstat(link)
	if piped := <-read; string(got) != "after" || piped != "after" || linked.Mode().Type() != fs.ModeSymlink {
		t.Errorf("file %q, pipe %q, link %v", got, piped, linked.Mode())
	}
	if err := replaceFile("/dev/full", write); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full device: %v", err)
	}
}

// TestTable: a terminal gets the last column wrapped into what the others leave; a pipe gets a line for each row.
func TestTable(t *testing.T) {
	t.Parallel()
	rows := [][]any{{"KEY", "DETAIL"}, {"comment-1", "must be a number, not a text"}, {"comment-2", "short"}}
	for width, want := range map[int]string{
		0: "KEY        DETAIL\ncomment-1  must be a number, not a text\ncomment-2  short\n",
		34: "KEY        DETAIL\ncomment-1  must be a number, not a\n           text\n" +
			"comment-2  short\n",
	} {
		var out strings.Builder
		(&environment{stdout: &output{Writer: &out}, width: width}).table(rows...)
		if out.String() != want {
			t.Errorf("%d columns:\n%s\nwant\n%s", width, &out, want)
		}
	}
}

// TestFindKey: a key is named by its prefix or by the owner of one usable key; a name that fits several is refused with
// all of them, and never guessed.
func TestFindKey(t *testing.T) {
	t.Parallel()
	id := []uuid.UUID{uuid.New(), uuid.New(), uuid.New(), uuid.New(), uuid.New()}
	keys := []namedKey{
		{id[0], "ngp_aaaa", "Fan Site", false},
		{id[1], "ngp_bbbb", "Fan Site", true},
		{id[2], "ngp_cccc", "Reader", true},
		{id[3], "ngp_dddd", "Reader", true},
		{id[4], "ngp_dddd", "Other", true},
	}
	for name, want := range map[string]struct {
		id  uuid.UUID
		err string
	}{
		"ngp_aaaa": {id: id[0]}, "ngp_bbbb…": {id: id[1]}, "fan  SITE": {id: id[1]},
		"Reader":   {err: `"Reader" is ambiguous: name one of ngp_cccc… (` + id[2].String() + `), ngp_dddd…`},
		"ngp_dddd": {err: "ambiguous"}, "ngp_": {err: "no such key"}, "": {err: "no such key"},
	} {
		got, err := findKey(name, keys)
		if got != want.id || (err == nil) != (want.err == "") || err != nil && !strings.Contains(err.Error(), want.err) {
			t.Errorf("%q: %s, %v; want %s, %q", name, got, err, want.id, want.err)
		}
	}
}

// TestReadIDs: ids come as words, as URLs, or in the first column of the table of post list, in which partners write
// the rest.
func TestReadIDs(t *testing.T) {
	t.Parallel()
	one, two := uuid.New(), uuid.New()
	table := "POST  STATE  RECEIVED, BY, ON, TEXT\n" + one.String() + "  hidden, reports: 2  " + two.String() + "\n"
	for text, want := range map[string][]uuid.UUID{
		one.String() + " " + two.String() + "\n\n" + one.String():    {one, two, one},
		"https://n.example/novels/x/discussion?post=" + one.String(): {one},
		table: {one},
		one.String() + " nonsense " + two.String(): nil,
		"POSTS": nil,
	} {
		got, err := readIDs(strings.NewReader(text))
		if !slices.Equal(got, want) || (err != nil) != (want == nil) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
}

// TestNewestBackup: the newest complete base backup counts; a damaged one is as good as none.
func TestNewestBackup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, step := range []struct {
		name, text string
		want       float64
	}{
		{"base-1.part", "", 0},
		{"base-2", `{"ended":"2026-11-28T00:00:02Z"}`, 1795824002},
		{"base-1", `{"ended":"2026-11-28T00:00:01Z"}`, 1795824002},
		{"base-3", "{", 0},
	} {
		testdb.NoError(t, os.Mkdir(filepath.Join(dir, step.name), 0o700))
		testdb.NoError(t, os.WriteFile(filepath.Join(dir, step.name, "backup.json"), []byte(step.text), 0o600))
		if got := newestBackup(dir); got != step.want {
			t.Errorf("with %s: %f, want %f", step.name, got, step.want)
		}
	}
}

// TestTypedDatabase: a database that is typed wins over NOVELGATE_URL, and both typed are refused. A command that has
// no
// --url says that the variable does not help.
func TestTypedDatabase(t *testing.T) {
	t.Setenv("NOVELGATE_URL", "http://127.0.0.1:1")
	t.Setenv("NOVELGATE_KEY", "")
	t.Setenv("NOVELGATE_DATABASE_URL", "")
	t.Setenv("DATABASE_URL", "")
	empty := t.TempDir()
	for command, want := range map[string]string{
		"novel list":                                              "--url or NOVELGATE_URL needs a staff key",
		"novel list --data-dir " + empty:                          "PostgreSQL is not running",
		"events list --data-dir " + empty:                         "PostgreSQL is not running",
		"doctor --data-dir " + empty:                              "NOVELGATE_URL does not help",
		"novel list --database-url wrong:":                        "database URL",
		"novel list --url http://127.0.0.1:1 --data-dir " + empty: "--url excludes --database-url and --data-dir",
	} {
		if _, stderr, code := runHere(strings.Fields(command)...); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, want %q:\n%s", command, code, want, stderr)
		}
	}
}
