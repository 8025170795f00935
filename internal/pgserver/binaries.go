package pgserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
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

func (b binaries) postgres() string { return filepath.Join(b.dir, "postgres") }
func (b binaries) initdb() string   { return filepath.Join(b.dir, "initdb") }

// findBinaries returns programs of major version want, or of any supported version if want is 0. If $PG_BINDIR is set,
// they must be in this directory. Otherwise it takes the first usable ones of PATH, `pg_config --bindir`, searchGlobs
// and the cache, and finally installs them with npm into the cache.
func findBinaries(ctx context.Context, cfg Config, want int) (binaries, error) {
	if explicit := cfg.getenv("PG_BINDIR"); explicit != "" {
		return inspect(ctx, explicit, want)
	}
	bin, ok, unusable := firstUsable(ctx, candidates(ctx, cfg), want)
	if ok {
		return bin, nil
	}
	bin, err := installBinaries(ctx, cfg, want)
	if err == nil {
		return bin, nil
	}
	reasons := errors.Join(unusable, err)
	wanted, sentinel := fmt.Sprintf("%d or newer", minMajor), ErrNoBinaries
	switch {
	case want == 0:
	case errors.Is(reasons, ErrVersionMismatch):
		wanted, sentinel = strconv.Itoa(want), ErrVersionMismatch
	default:
		wanted, sentinel = strconv.Itoa(want), errors.Join(ErrVersionMismatch, ErrNoBinaries)
	}
	return binaries{}, fmt.Errorf("find PostgreSQL %s: %w (%w). Install it with: %s", wanted, sentinel, reasons,
		installCommand(want))
}

// firstUsable returns the first programs that inspect accepts and that have these further tools beside them, or why
// each directory is unusable.
func firstUsable(
	ctx context.Context, dirs []string, want int, tools ...string,
) (bin binaries, ok bool, reasons error) {
	var unusable []error
	for _, dir := range dirs {
		bin, err := inspect(ctx, dir, want)
		for _, tool := range tools {
			if err == nil && !isExecutable(filepath.Join(dir, tool)) {
				err = fmt.Errorf("%s has no %s", dir, tool)
			}
		}
		if err == nil {
			return bin, true, nil
		}
		unusable = append(unusable, err)
	}
	return binaries{}, false, errors.Join(unusable...)
}

// candidates returns the directories with an executable postgres, in the order of preference.
func candidates(ctx context.Context, cfg Config) (found []string) {
	var dirs []string
	for _, dir := range filepath.SplitList(cfg.getenv("PATH")) {
		// Resolve the link first: initdb is beside its target, and need not be beside the link.
		if target, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres")); err == nil {
			dirs = append(dirs, filepath.Dir(target))
		}
	}
	if tool := lookPath(cfg, "pg_config"); tool != "" {
		out, err := exec.CommandContext(ctx, tool, "--bindir").Output() //nolint:gosec // found on PATH, as a shell would
		if err == nil {
			dirs = append(dirs, strings.TrimSpace(string(out)))
		}
	}
	for _, glob := range cfg.searchGlobs {
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

// lookPath is exec.LookPath with the PATH of cfg; "" when nothing is found.
func lookPath(cfg Config, name string) string {
	for _, dir := range filepath.SplitList(cfg.getenv("PATH")) {
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
	if !isExecutable(bin.initdb()) {
		return bin, fmt.Errorf("%s has no initdb", dir)
	}
	out, err := exec.CommandContext(ctx, bin.postgres(), "--version").CombinedOutput() //nolint:gosec // chosen by the operator
	if err != nil {
		return bin, fmt.Errorf("run %s --version: %w: %s", bin.postgres(), err, strings.TrimSpace(string(out)))
	}
	match := versionLine.FindSubmatch(out)
	if match == nil {
		return bin, fmt.Errorf("%s prints no version: %q", bin.postgres(), out)
	}
	if bin.major, err = strconv.Atoi(string(match[1])); err != nil {
		return bin, fmt.Errorf("parse version of %s: %w", bin.postgres(), err)
	}
	switch {
	case bin.major < minMajor:
		return bin, fmt.Errorf("%s is PostgreSQL %d, but %d or newer is needed", bin.postgres(), bin.major, minMajor)
	case want != 0 && bin.major != want:
		return bin, fmt.Errorf("%w: the data is of PostgreSQL %d, but %s is PostgreSQL %d", ErrVersionMismatch, want,
			bin.postgres(), bin.major)
	}
	return bin, nil
}

// installCommand returns the command that installs PostgreSQL on this system; major 0 means any version.
func installCommand(major int) string {
	release, _ := os.ReadFile("/etc/os-release") // without it, installCommandFor names a web page
	return installCommandFor(runtime.GOOS, string(release), major)
}

// installers has commands by the ID in os-release(5). The separator and the major version follow the command if a
// version is wanted; then follows the suffix.
var installers = map[string]struct{ command, separator, suffix string }{
	"debian":   {"sudo apt-get install -y postgresql", "-", ""},
	"ubuntu":   {"sudo apt-get install -y postgresql", "-", ""},
	"fedora":   {"sudo dnf install -y postgresql", "", "-server"},
	"rhel":     {"sudo dnf install -y postgresql", "", "-server"},
	"centos":   {"sudo dnf install -y postgresql", "", "-server"},
	"alpine":   {"apk add postgresql", "", ""},
	"suse":     {"sudo zypper install -y postgresql", "", "-server"},
	"opensuse": {"sudo zypper install -y postgresql", "", "-server"},
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
			if id == "arch" { // has only one version
				return "sudo pacman -S postgresql"
			}
			installer, known := installers[id]
			switch {
			case !known:
			case major == 0:
				return installer.command + installer.suffix
			default:
				return installer.command + installer.separator + strconv.Itoa(major) + installer.suffix
			}
		}
	}
	return "see https://www.postgresql.org/download/"
}
