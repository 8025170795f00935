package testdb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// control is the directory through which test processes and the holder meet.
type control struct{ dir string }

func controlDir() control {
	return control{filepath.Join(os.TempDir(), fmt.Sprintf("novelgate-testdb-%d", os.Geteuid()))}
}

func (c control) start() string  { return filepath.Join(c.dir, "start") }
func (c control) users() string  { return filepath.Join(c.dir, "users") }
func (c control) holder() string { return filepath.Join(c.dir, "holder") }
func (c control) url() string    { return filepath.Join(c.dir, "url") }
func (c control) runs() string   { return filepath.Join(c.dir, "runs") }
func (c control) log() string    { return filepath.Join(c.dir, "holder.log") }

// make creates the directory. It lies in a directory that everybody may write to, so one that somebody
// else has put there is refused.
func (c control) make() error {
	if err := os.Mkdir(c.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make control directory: %w", err)
	}
	info, err := os.Lstat(c.dir)
	if err != nil {
		return fmt.Errorf("inspect control directory: %w", err)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || !ok || int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%s is not a directory of ours: remove it", c.dir)
	}
	if err := os.MkdirAll(c.runs(), 0o700); err != nil {
		return fmt.Errorf("make directory for runs: %w", err)
	}
	return nil
}

// noteRun records the go command that has started this process, if one has. A shell or an IDE does not
// count: it may live for days.
func (c control) noteRun() error {
	parent := os.Getppid()
	if !isGoCommand(parent) {
		return nil
	}
	if err := os.WriteFile(filepath.Join(c.runs(), strconv.Itoa(parent)), nil, 0o600); err != nil {
		return fmt.Errorf("note run: %w", err)
	}
	return nil
}

// runUnderWay tells whether one of the noted go commands is still alive, and forgets the others.
func (c control) runUnderWay() bool {
	entries, err := os.ReadDir(c.runs())
	if err != nil {
		return false
	}
	alive := false
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil && isGoCommand(pid) {
			alive = true
			continue
		}
		_ = os.Remove(filepath.Join(c.runs(), entry.Name())) // what stays is judged again
	}
	return alive
}

func isGoCommand(pid int) bool {
	if runtime.GOOS != "linux" {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	// "pid (comm) state …": a zombie has ended, though its parent does not know yet.
	_, rest, _ := strings.Cut(string(stat), " (")
	name, rest, _ := strings.Cut(rest, ") ")
	return name == "go" && !strings.HasPrefix(rest, "Z")
}

// lockFile opens and locks a file, waiting if how does not contain LOCK_NB. The lock ends when the file
// is closed or the process ends.
func lockFile(path string, how int) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	for {
		err = syscall.Flock(int(file.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
	}
	return file, nil
}
