package pgserver

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Config says where and how a server runs. The zero value works.
type Config struct {
	// DataDir holds everything that must survive. Default: DefaultDataDir().
	DataDir string

	// CacheDir receives what npm installs. Default: /var/cache/novelgate for root, otherwise
	// "novelgate" below the user's cache directory.
	CacheDir string

	// SearchGlobs lists patterns of directories with PostgreSQL programs; among the matches of one
	// pattern the highest version comes first. Default: the places where Linux distributions and
	// Homebrew put them. An empty, non-nil slice searches nowhere.
	SearchGlobs []string

	// Settings are added to the command line of the server, after its own, as `-c name=value`.
	// With fsync=off, initdb does not sync either.
	Settings map[string]string

	// StartTimeout bounds a start, crash recovery included. Default: 5 minutes.
	StartTimeout time.Duration

	// StopTimeout is how long a fast shutdown may take before Stop demands an immediate one, from
	// which the next start recovers. Default: 30 seconds.
	StopTimeout time.Duration

	// Logger hears of starts, stops and downloads. Default: silence.
	Logger *slog.Logger

	// Getenv looks up PG_BINDIR and PATH. Default: os.Getenv.
	Getenv func(string) string

	logInterval time.Duration // how often the size of the server's log is looked at
}

func (c Config) withDefaults() (Config, error) {
	if c.DataDir == "" {
		c.DataDir = DefaultDataDir()
	}
	if c.CacheDir == "" {
		c.CacheDir = defaultCacheDir()
	}
	for _, dir := range []*string{&c.DataDir, &c.CacheDir} {
		abs, err := filepath.Abs(*dir)
		if err != nil {
			return c, fmt.Errorf("resolve directory: %w", err)
		}
		*dir = abs
	}
	if c.SearchGlobs == nil {
		c.SearchGlobs = defaultSearchGlobs
	}
	if c.StartTimeout <= 0 {
		c.StartTimeout = 5 * time.Minute
	}
	if c.StopTimeout <= 0 {
		c.StopTimeout = 30 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.logInterval <= 0 {
		c.logInterval = logInterval
	}
	if c.Getenv == nil {
		c.Getenv = os.Getenv
	}
	return c, nil
}

// DefaultDataDir is /var/lib/novelgate for root, otherwise "novelgate" in the XDG data home
// ($XDG_DATA_HOME, else ~/.local/share). A user without a home gets a directory below the temporary one.
func DefaultDataDir() string {
	if os.Geteuid() == 0 {
		return "/var/lib/novelgate"
	}
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "novelgate")
	}
	if home, err := os.UserHomeDir(); err == nil && isDir(home) {
		return filepath.Join(home, ".local", "share", "novelgate")
	}
	return homelessDir("data")
}

// DiskFree returns the bytes that are free for a data directory ("": the default one), 0 if that cannot be told.
func DiskFree(dataDir string) uint64 {
	_, free := disk(cmp.Or(dataDir, DefaultDataDir()))
	return free
}

func defaultCacheDir() string {
	if os.Geteuid() == 0 {
		return "/var/cache/novelgate"
	}
	if dir := os.Getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "novelgate")
	}
	if home, err := os.UserHomeDir(); err == nil && isDir(home) {
		if dir, err := os.UserCacheDir(); err == nil {
			return filepath.Join(dir, "novelgate")
		}
	}
	return homelessDir("cache")
}

func homelessDir(purpose string) string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("novelgate-%s-%d", purpose, os.Geteuid()))
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

const (
	mebibyte = 1 << 20

	leastBuffers = 128 * mebibyte  // what the server takes by itself
	mostBuffers  = 1024 * mebibyte // memory that a server beside other programs may well use
	memoryShare  = 8

	leastWAL  = 1024 * mebibyte // what the server takes by itself
	mostWAL   = 8192 * mebibyte // of what it reads again after a crash, before it answers
	diskShare = 16
)

// sizes returns the settings that depend on the machine, and those that the server's own defaults set for one of the
// last century.
//
// Identifiers are spread evenly over the indexes, so that most appends touch pages that no other has touched for a
// while. Pages that do not fit in shared_buffers are written and read again and again; each page that is touched for
// the first time after a checkpoint goes to the WAL as a whole. docs/decisions/0016-database-settings.md has figures.
func sizes(memory, disk uint64) map[string]string {
	buffers := min(max(memory/memoryShare, leastBuffers), mostBuffers)
	return map[string]string{
		"shared_buffers":     strconv.FormatUint(buffers/mebibyte, 10) + "MB",
		"max_wal_size":       strconv.FormatUint(min(max(disk/diskShare, leastWAL), mostWAL)/mebibyte, 10) + "MB",
		"checkpoint_timeout": "15min",
	}
}
