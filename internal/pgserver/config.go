package pgserver

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"
)

// startTimeout limits a start, including crash recovery.
const startTimeout = 5 * time.Minute

// Config configures a server. The zero value works.
type Config struct {
	// DataDir is the directory for all data of the server. Default: DefaultDataDir().
	DataDir string

	// Settings are added to the command line of the server as `-c name=value`, and override its other settings. With
	// fsync=off, initdb does not sync either.
	Settings map[string]string

	// StopTimeout limits a fast shutdown. Afterwards Stop requests an immediate shutdown, after which the next start runs
	// crash recovery. Default: 30 seconds.
	StopTimeout time.Duration

	// Logger gets starts, stops and downloads. Default: none.
	Logger *slog.Logger

	// Only tests set these.
	cacheDir    string              // npm installs into it
	searchGlobs []string            // see defaultSearchGlobs; an empty, non-nil slice: no search
	getenv      func(string) string // looks up PG_BINDIR and PATH
	logInterval time.Duration       // interval between checks of the size of the server's log
}

func (c Config) withDefaults() (Config, error) {
	c.DataDir = cmp.Or(c.DataDir, DefaultDataDir())
	c.cacheDir = cmp.Or(c.cacheDir, defaultCacheDir())
	for _, dir := range []*string{&c.DataDir, &c.cacheDir} {
		abs, err := filepath.Abs(*dir)
		if err != nil {
			return c, fmt.Errorf("resolve directory: %w", err)
		}
		*dir = abs
	}
	if c.searchGlobs == nil {
		c.searchGlobs = defaultSearchGlobs
	}
	c.StopTimeout = cmp.Or(c.StopTimeout, 30*time.Second)
	c.logInterval = cmp.Or(c.logInterval, logInterval)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.getenv == nil {
		c.getenv = os.Getenv
	}
	return c, nil
}

// DefaultDataDir is /var/lib/novelgate for root, otherwise "novelgate" in the XDG data home ($XDG_DATA_HOME, else
// ~/.local/share). A user without a home gets a directory below the temporary one.
func DefaultDataDir() string {
	return defaultDir("/var/lib/novelgate", "data", "XDG_DATA_HOME", filepath.Join(".local", "share"))
}

// defaultCacheDir is /var/cache/novelgate for root, otherwise "novelgate" in the XDG cache home ($XDG_CACHE_HOME, else
// ~/.cache; on macOS ~/Library/Caches). A user without a home gets a directory below the temporary one.
func defaultCacheDir() string {
	inHome := ".cache"
	if runtime.GOOS == "darwin" {
		inHome = filepath.Join("Library", "Caches")
	}
	return defaultDir("/var/cache/novelgate", "cache", "XDG_CACHE_HOME", inHome)
}

func defaultDir(ofRoot, purpose, variable, inHome string) string {
	if os.Geteuid() == 0 {
		return ofRoot
	}
	if dir := os.Getenv(variable); filepath.IsAbs(dir) {
		return filepath.Join(dir, "novelgate")
	}
	if home, err := os.UserHomeDir(); err == nil && isDir(home) {
		return filepath.Join(home, inHome, "novelgate")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("novelgate-%s-%d", purpose, os.Geteuid()))
}

// DiskFree returns the free bytes for a data directory ("": DefaultDataDir()); 0 if unknown.
func DiskFree(dataDir string) uint64 {
	_, free := disk(cmp.Or(dataDir, DefaultDataDir()))
	return free
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

const (
	mebibyte = 1 << 20

	minBuffers  = 128 * mebibyte  // the server's own default
	maxBuffers  = 1024 * mebibyte // leaves memory for other programs
	memoryShare = 8               // an eighth of the memory

	minWAL    = 1024 * mebibyte // the server's own default
	maxWAL    = 8192 * mebibyte // limits the WAL that a crash recovery reads
	diskShare = 16              // a sixteenth of the disk
)

// machineSettings returns the settings that depend on the machine, and checkpoint_timeout, whose default is too short.
// memory and disk are in bytes, 0 if unknown.
//
// Identifiers are spread evenly over the indexes, so most appends touch pages that were not used recently. Pages that
// do not fit in shared_buffers are written and read repeatedly; the first change of a page after a checkpoint writes
// the whole page to the WAL. See docs/architecture.md.
func machineSettings(memory, disk uint64) map[string]string {
	buffers := min(max(memory/memoryShare, minBuffers), maxBuffers)
	return map[string]string{
		"shared_buffers":     strconv.FormatUint(buffers/mebibyte, 10) + "MB",
		"max_wal_size":       strconv.FormatUint(min(max(disk/diskShare, minWAL), maxWAL)/mebibyte, 10) + "MB",
		"checkpoint_timeout": "15min",
	}
}
