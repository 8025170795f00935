package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the user that runs the server and owns its data.
type account struct {
	name     string
	uid, gid int
	drop     bool // this process is root and runs the programs as the account
}

// chooseAccount returns the user of this process. If that is root, as whom PostgreSQL refuses to run, it returns the
// owner of existing data at cluster (so that the data stays the user's), otherwise "postgres", otherwise "nobody".
func chooseAccount(cluster string) (account, error) {
	if uid := os.Geteuid(); uid != 0 {
		return account{name: "uid " + strconv.Itoa(uid), uid: uid, gid: os.Getegid()}, nil
	}
	info, err := os.Stat(cluster)
	switch {
	case err == nil:
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 {
			return account{name: accountName(stat.Uid), uid: int(stat.Uid), gid: int(stat.Gid), drop: true}, nil
		}
	case !errors.Is(err, fs.ErrNotExist):
		return account{}, fmt.Errorf("stat data: %w", err)
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.Atoi(found.Uid)
		gid, gidErr := strconv.Atoi(found.Gid)
		if uidErr != nil || gidErr != nil || uid == 0 {
			continue
		}
		return account{name: name, uid: uid, gid: gid, drop: true}, nil
	}
	return account{},
		errors.New("PostgreSQL does not run as root, and there is neither a user postgres nor a user nobody to run it as")
}

// accountName returns the name of a user, or "uid N" for a user without a name.
func accountName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if found, err := user.LookupId(id); err == nil {
		return found.Username
	}
	return "uid " + id
}

// credential returns the user to change to; nil if this process runs as the account.
func (a account) credential() *syscall.Credential {
	if !a.drop {
		return nil
	}
	return &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)} //nolint:gosec // ids of the system fit
}

// chown makes the account the owner of path.
func (a account) chown(path string) error {
	if !a.drop {
		return nil
	}
	if err := os.Lchown(path, a.uid, a.gid); err != nil {
		return fmt.Errorf("hand over to user %s: %w", a.name, err)
	}
	return nil
}

// privateDir makes sure that path is a directory of mode 0700 owned by the account. It refuses a directory of another
// user, or a link: in /tmp anybody can create them.
func (a account) privateDir(path string) error {
	err := os.Mkdir(path, 0o700)
	if err == nil {
		return a.chown(path)
	}
	if !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make private directory: %w", err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("inspect private directory: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || (int(stat.Uid) != a.uid && int(stat.Uid) != os.Geteuid()) {
		return fmt.Errorf("%s is not a directory of user %s: remove it", path, a.name)
	}
	if err := os.Chmod(path, 0o700); err != nil { //nolint:gosec // a directory needs its x bit
		return fmt.Errorf("protect private directory: %w", err)
	}
	return a.chown(path)
}

// ensureReach makes sure that the account can run the programs and enter the data directory. It tries by running a
// program there: only this takes access control lists and mounts into account. If directories of root block the path (a
// data directory below /root, or below one made by mktemp), the account gets the right to pass through them, and no
// other right.
func ensureReach(ctx context.Context, cfg Config, owner account, bin binaries) error {
	if !owner.drop {
		return nil
	}
	if err := ensurePassage(ctx, cfg, owner, bin, "/", bin.dir); err != nil {
		return fmt.Errorf("user %s cannot run %s: %w", owner.name, bin.postgres(), err)
	}
	if err := ensurePassage(ctx, cfg, owner, bin, cfg.DataDir, cfg.DataDir); err != nil {
		return fmt.Errorf("user %s, as whom root runs PostgreSQL, cannot enter the data directory %s: %w", owner.name,
			cfg.DataDir, err)
	}
	return nil
}

// ensurePassage tries to run a program in dir. If that is not permitted, it lets the account pass through the
// directories down to path, and tries again.
func ensurePassage(ctx context.Context, cfg Config, owner account, bin binaries, dir, path string) error {
	runVersion := func() error { return run(command(ctx, owner, dir, bin.postgres(), "--version")) }
	failure := runVersion()
	if failure == nil || !errors.Is(failure, os.ErrPermission) {
		return failure
	}
	for _, ancestor := range ancestors(path) {
		info, err := os.Stat(ancestor)
		if err != nil {
			return errors.Join(failure, err)
		}
		if enterable(owner, info) {
			continue
		}
		blocked := fmt.Sprintf("%s has mode %04o", ancestor, info.Mode().Perm())
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Geteuid() {
			return fmt.Errorf("%s: %w", blocked, failure)
		}
		if err := grantPassage(ancestor, owner.uid); err != nil {
			return fmt.Errorf("%s, and user %s cannot be let through (%w): %w", blocked, owner.name, err, failure)
		}
		cfg.Logger.WarnContext(ctx, "let the user of PostgreSQL pass through a directory", slog.String("directory", ancestor),
			slog.String("user", owner.name))
	}
	return runVersion()
}

// enterable reports whether the mode bits let the account enter a directory. It does not read access control lists:
// with one, the group bits are its mask, not the rights of the group.
func enterable(owner account, info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return true
	}
	bit := os.FileMode(0o001)
	switch {
	case int(stat.Uid) == owner.uid:
		bit = 0o100
	case int(stat.Gid) == owner.gid:
		bit = 0o010
	}
	return info.Mode().Perm()&bit != 0
}

// ancestors returns the directories from the root down to path, including path.
func ancestors(path string) []string {
	dir := filepath.Clean(path)
	if parent := filepath.Dir(dir); parent != dir {
		return append(ancestors(parent), dir)
	}
	return []string{dir}
}
