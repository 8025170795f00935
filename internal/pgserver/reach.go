package pgserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// ensureReach makes sure that the account can run the programs and enter the data directory. Running a
// program there answers that with certainty, access control lists and mounts included. Where directories
// of root's are in the way (a data directory below /root, or below one made by mktemp), the account is
// allowed to pass through them, and only it, and only through.
func ensureReach(ctx context.Context, cfg Config, who account, bin binaries) error {
	if !who.drop {
		return nil
	}
	if err := ensurePassage(ctx, cfg, who, bin, "/", bin.dir); err != nil {
		return fmt.Errorf("user %s cannot run %s: %w", who.name, bin.postgres(), err)
	}
	if err := ensurePassage(ctx, cfg, who, bin, cfg.DataDir, cfg.DataDir); err != nil {
		return fmt.Errorf("user %s, as whom root runs PostgreSQL, cannot enter the data directory %s: %w", who.name,
			cfg.DataDir, err)
	}
	return nil
}

// ensurePassage tries to run a program in dir, and opens the way to path if that fails.
func ensurePassage(ctx context.Context, cfg Config, who account, bin binaries, dir, path string) error {
	failure := runIn(ctx, who, bin, dir)
	if failure == nil || !errors.Is(failure, os.ErrPermission) {
		return failure
	}
	for _, ancestor := range ancestors(path) {
		info, err := os.Stat(ancestor)
		if err != nil {
			return errors.Join(failure, err)
		}
		if enterable(who, info) {
			continue
		}
		blocked := fmt.Sprintf("%s has mode %04o", ancestor, info.Mode().Perm())
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Geteuid() {
			return fmt.Errorf("%s: %w", blocked, failure)
		}
		if err := grantPassage(ancestor, who.uid); err != nil {
			return fmt.Errorf("%s, and user %s cannot be let through (%w): %w", blocked, who.name, err, failure)
		}
		cfg.Logger.WarnContext(ctx, "let the user of PostgreSQL pass through a directory", slog.String("directory", ancestor),
			slog.String("user", who.name))
	}
	return runIn(ctx, who, bin, dir)
}

func runIn(ctx context.Context, who account, bin binaries, dir string) error {
	cmd := exec.CommandContext(ctx, bin.postgres(), "--version") //nolint:gosec // chosen by findBinaries
	cmd.Dir = dir
	cmd.Env = childEnv()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who.credential()}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w %s", err, out)
	}
	return nil
}

// enterable judges by the mode bits alone, which stay what they were when a list is added, except that
// those of the group then stand for its mask.
func enterable(who account, info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return true
	}
	bit := os.FileMode(0o001)
	switch {
	case int(stat.Uid) == who.uid:
		bit = 0o100
	case int(stat.Gid) == who.gid:
		bit = 0o010
	}
	return info.Mode().Perm()&bit != 0
}

// ancestors returns the directories from the root down to path, path itself included.
func ancestors(path string) []string {
	var up []string
	for dir := filepath.Clean(path); ; dir = filepath.Dir(dir) {
		up = append([]string{dir}, up...)
		if dir == filepath.Dir(dir) {
			return up
		}
	}
}
