package pgserver

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

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

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Disk returns the size and the free bytes of the disk of a data directory ("": DefaultDataDir()); size 0: unknown.
func Disk(dataDir string) (size, free uint64) { return disk(cmp.Or(dataDir, DefaultDataDir())) }

// settings returns the settings of the server: no network, logs of a week, and what depends on the machine.
//
// Identifiers are spread evenly over the indexes, so most appends touch pages that were not used recently. Pages that
// do not fit in shared_buffers are written and read repeatedly, so they are an eighth of the memory. The first change
// of a page after a checkpoint writes the whole page to the WAL, so checkpoints are rare: the WAL has a sixteenth of
// the disk. See docs/architecture.md.
func (s *Server) settings(ctx context.Context) map[string]string {
	const mebibyte = 1 << 20
	megabytes := func(bytes, least, most uint64) string {
		return strconv.FormatUint(min(max(bytes/mebibyte, least), most), 10) + "MB"
	}
	size, _ := disk(s.cluster)
	settings := map[string]string{
		"listen_addresses":         "",
		"unix_socket_directories":  `"` + strings.ReplaceAll(s.cluster, `"`, `""`) + `"`,
		"unix_socket_permissions":  "0700",
		"port":                     defaultPort,
		"cluster_name":             databaseName,
		"logging_collector":        "on",
		"log_destination":          "stderr",
		"log_directory":            "log",
		"log_filename":             "postgresql-%a.log",
		"log_rotation_age":         "1d",
		"log_rotation_size":        "0",
		"log_truncate_on_rotation": "on",
		"log_timezone":             "UTC",
		"timezone":                 "UTC",
		"shared_buffers":           megabytes(memory()/8, 128, 1024),
		"max_wal_size":             megabytes(size/16, 1024, 8192),
		"checkpoint_timeout":       "15min",
		"jit":                      "off", // writes the code that it runs, which a hardened unit forbids
	}
	// Identifiers spread over all index pages, so full pages are most of the WAL. PostgreSQL may have been built without
	// it.
	const lz4 = "wal_compression=lz4"
	if run(s.Command(ctx, "postgres", "-C", "wal_compression", "-D", s.cluster, "-c", lz4)) == nil {
		settings["wal_compression"] = "lz4"
	}
	switch r := s.recovery; {
	case r != nil:
		settings["hot_standby"] = "off" // it is ready only when the recovery is complete
		settings["restore_command"] = restoreCommand(r.dir)
		settings["recovery_target_action"] = "promote"
		settings["recovery_target_timeline"] = "latest"
		if !r.to.IsZero() {
			settings["recovery_target_time"] = r.to.UTC().Format("2006-01-02 15:04:05.999999+00")
		}
	case s.cfg.BackupDir != "":
		settings["archive_mode"] = "on"
		settings["archive_command"] = archiveCommand(s.cfg.BackupDir)
		settings["archive_timeout"] = "60s" // what a lost disk loses at most
	}
	maps.Copy(settings, s.cfg.Settings)
	return settings
}
