package pgserver

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"novelgate/internal/osfile"
)

// initCluster runs initdb in a temporary directory, and renames the directory. Call it under the lock.
func initCluster(ctx context.Context, cfg Config, l layout, bin binaries, owner account) error {
	cfg.Logger.InfoContext(ctx, "creating a PostgreSQL data directory", slog.String("directory", l.cluster(bin.major)),
		slog.String("user", owner.name))
	temp, err := os.MkdirTemp(l.dir, filepath.Base(l.cluster(bin.major))+".init-*")
	if err != nil {
		return fmt.Errorf("make directory for initdb: %w", err)
	}
	defer func() { _ = os.RemoveAll(temp) }() // renamed already, unless something failed
	if err := owner.chown(temp); err != nil {
		return err
	}
	args := []string{"--pgdata=" + temp, "--username=" + superuser, "--auth=trust", "--encoding=UTF8", "--locale=C"}
	if cfg.Settings["fsync"] == "off" {
		args = append(args, "--no-sync")
	}
	if err := run(command(ctx, owner, temp, bin.initdb(), args...)); err != nil {
		return err
	}
	if err := os.Rename(temp, l.cluster(bin.major)); err != nil {
		return fmt.Errorf("put data directory into place: %w", err)
	}
	return osfile.Sync(l.dir)
}

// removeUnfinished deletes the directories of interrupted initdbs and copies. Call it under the lock. It retries,
// because the initdb of an owner that was just killed may still be cleaning up.
func removeUnfinished(ctx context.Context, l layout) error {
	leftovers, err := fs.Glob(os.DirFS(l.dir), "pg*.init-*")
	if err != nil {
		return fmt.Errorf("look for unfinished initdb: %w", err)
	}
	for _, name := range leftovers {
		for attempt := 0; ; attempt++ {
			err := os.RemoveAll(filepath.Join(l.dir, name))
			if err == nil {
				break
			}
			if attempt == 100 || ctx.Err() != nil {
				return fmt.Errorf("remove unfinished initdb: %w", err)
			}
			time.Sleep(pollInterval)
		}
	}
	return nil
}

// checkCluster checks that the directory has data of the version in its name.
func checkCluster(l layout, major int) error {
	content, err := os.ReadFile(filepath.Join(l.cluster(major), "PG_VERSION"))
	if err != nil {
		return fmt.Errorf("%s is not a PostgreSQL data directory: %w", l.cluster(major), err)
	}
	if version := strings.TrimSpace(string(content)); version != strconv.Itoa(major) {
		return fmt.Errorf("%w: %s holds data of PostgreSQL %s", ErrVersionMismatch, l.cluster(major), version)
	}
	return nil
}
