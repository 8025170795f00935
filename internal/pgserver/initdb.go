package pgserver

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// initCluster runs initdb in a directory aside and renames it into place. Call it under the lock.
func initCluster(ctx context.Context, cfg Config, l layout, bin binaries, who account) error {
	cfg.Logger.InfoContext(ctx, "creating a PostgreSQL data directory", slog.String("directory", l.cluster(bin.major)),
		slog.String("user", who.name))
	temp, err := os.MkdirTemp(l.dir, l.initPattern(bin.major))
	if err != nil {
		return fmt.Errorf("make directory for initdb: %w", err)
	}
	defer func() { _ = os.RemoveAll(temp) }() // gone already when all went well
	if err := who.own(temp); err != nil {
		return err
	}
	args := []string{"--pgdata=" + temp, "--username=" + superuser, "--auth=trust", "--encoding=UTF8", "--locale=C"}
	if cfg.Settings["fsync"] == "off" {
		args = append(args, "--no-sync")
	}
	cmd := exec.CommandContext(ctx, bin.initdb(), args...) //nolint:gosec // chosen by findBinaries
	cmd.Dir = temp
	cmd.Env = childEnv()
	cmd.SysProcAttr = childAttributes(who)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) } // initdb tidies up
	cmd.WaitDelay = 5 * time.Second
	if out, err := runBound(cmd); err != nil {
		return fmt.Errorf("run initdb: %w:\n%s", err, lastLines(string(out), 12))
	}
	if err := os.Rename(temp, l.cluster(bin.major)); err != nil {
		return fmt.Errorf("put data directory into place: %w", err)
	}
	return syncDir(l.dir)
}

// removeUnfinished deletes what an initdb that was cut short has left. Call it under the lock. The
// initdb of an owner that has just been killed may still be tidying up in there, hence the patience.
func removeUnfinished(ctx context.Context, l layout) error {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return fmt.Errorf("look for unfinished initdb: %w", err)
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), "pg") || !strings.Contains(entry.Name(), ".init-") {
			continue
		}
		for attempt := 0; ; attempt++ {
			err := os.RemoveAll(filepath.Join(l.dir, entry.Name()))
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

// checkCluster makes sure that the directory holds what its name says.
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

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	defer func() { _ = dir.Close() }()
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}

// childEnv is all that PostgreSQL's programs get to see: PG… variables of ours would change what they do.
func childEnv() []string {
	env := []string{"LC_ALL=C", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	for _, name := range []string{"LD_LIBRARY_PATH", "TMPDIR"} {
		if value, set := os.LookupEnv(name); set {
			env = append(env, name+"="+value)
		}
	}
	return env
}
