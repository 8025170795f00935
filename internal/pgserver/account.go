package pgserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"novelgate/internal/system"
)

// account is the user that runs the server and owns its data.
type account struct {
	name     string
	uid, gid int
}

// ownerOf returns the owner of a file.
func ownerOf(path string) (account, error) {
	info, err := os.Stat(path)
	if err != nil {
		return account{}, fmt.Errorf("find the owner: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return account{}, fmt.Errorf("%s has no owner: %w", path, errors.ErrUnsupported)
	}
	owner := account{"uid " + strconv.Itoa(int(stat.Uid)), int(stat.Uid), int(stat.Gid)}
	if found, err := user.LookupId(strconv.Itoa(owner.uid)); err == nil {
		owner.name = found.Username
	}
	return owner, nil
}

// chooseAccount returns the user for a new server on a data directory: that of this process. If that is root, as whom
// PostgreSQL refuses to run, it is the owner of the directory, otherwise "postgres", otherwise "nobody".
func chooseAccount(dir string) (account, error) {
	if uid := os.Geteuid(); uid != 0 {
		return account{"uid " + strconv.Itoa(uid), uid, os.Getegid()}, nil
	}
	if owner, err := ownerOf(dir); err == nil && owner.uid != 0 {
		return owner, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.Atoi(found.Uid)
		gid, gidErr := strconv.Atoi(found.Gid)
		if uidErr == nil && gidErr == nil && uid != 0 {
			return account{name, uid, gid}, nil
		}
	}
	return account{},
		errors.New("PostgreSQL does not run as root, and there is neither a user postgres nor a user nobody to run it as")
}

// withOwner adds to a permission error the owner of the path, as whom the program can run.
func withOwner(err error, path string) error {
	owner, ownerErr := ownerOf(path)
	if !errors.Is(err, fs.ErrPermission) || ownerErr != nil {
		return err
	}
	if owner.uid == 0 {
		return fmt.Errorf("%w: %s belongs to root: run this as root, or give it to another user", err, path)
	}
	return fmt.Errorf("%w: %s belongs to %s: run this as %[3]s, or as root", err, path, owner.name)
}

// credential returns the user to change to; nil unless this process is root.
func (a account) credential() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	return &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)} //nolint:gosec // ids of the system fit
}

// command returns a command that runs a program in dir as the account. The end of ctx interrupts it, so that it cleans
// up.
func (a account) command(ctx context.Context, dir, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // PostgreSQL's programs
	cmd.Dir = dir
	cmd.Env = []string{"LC_ALL=C", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	for _, name := range []string{"LD_LIBRARY_PATH", "TMPDIR"} {
		if value, set := os.LookupEnv(name); set {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	// A Ctrl-C, which would stop a server too early, does not reach it.
	cmd.SysProcAttr = system.ChildAttributes(syscall.SIGINT)
	cmd.SysProcAttr.Credential = a.credential()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// run runs a command to its end. The error includes the last lines of the output.
func run(cmd *exec.Cmd) error {
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	p, err := system.StartChild(cmd)
	if err != nil {
		return err
	}
	if err := p.Wait(); err != nil {
		return fmt.Errorf("run %s: %w:\n%s", cmd.Path, err, lastLines(output.String(), 12))
	}
	return nil
}

func lastLines(text string, count int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}

// checkReach reports whether the account can run the programs and enter the data directory. It tries: only this takes
// access control lists and mounts into account.
func (s *Server) checkReach(ctx context.Context) error {
	postgres := s.bin.program("postgres")
	if err := run(s.as.command(ctx, "/", postgres, "--version")); err != nil {
		return fmt.Errorf("user %s cannot run %s: %w", s.as.name, postgres, err)
	}
	err := run(s.as.command(ctx, s.dir, postgres, "--version"))
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	for dir := s.dir; dir != "/"; dir = filepath.Dir(dir) {
		if info, statErr := os.Stat(dir); statErr == nil && info.Mode().Perm()&0o001 == 0 {
			err = fmt.Errorf("%s has mode %04o (%w)", dir, info.Mode().Perm(), err)
		}
	}
	return fmt.Errorf("user %s, as whom root runs PostgreSQL, cannot enter %s: %w: choose another --data-dir, such as %s",
		s.as.name, s.dir, err, DefaultDataDir())
}
