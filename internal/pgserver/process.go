package pgserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"novelgate/internal/child"
)

// process is a server process. On Linux it stops when this process dies.
type process struct{ *child.Process }

// stop sends SIGINT (fast shutdown). After the time-out or when ctx is done, it sends SIGQUIT (immediate shutdown), and
// finally SIGKILL. It returns when the child has ended, with an error unless SIGINT was enough.
func (p process) stop(ctx context.Context, timeout time.Duration) error {
	const quitTimeout = 10 * time.Second // a postmaster kills its backends 5 s after SIGQUIT
	p.Signal(syscall.SIGINT)
	select {
	case <-p.Done():
		return nil
	case <-ctx.Done():
	case <-time.After(timeout):
	}
	p.Signal(syscall.SIGQUIT)
	select {
	case <-p.Done():
		return errors.New("PostgreSQL did not shut down in time, and was stopped at once; the next start recovers")
	case <-time.After(quitTimeout):
	}
	p.Signal(syscall.SIGKILL)
	<-p.Done()
	return errors.New("PostgreSQL did not shut down, and was killed; the next start recovers")
}

// command returns a command that runs a program of PostgreSQL in dir as an account. The end of ctx interrupts it, so
// that it cleans up.
func command(ctx context.Context, owner account, dir, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // chosen by findBinaries
	cmd.Dir = dir
	cmd.Env = childEnv()
	cmd.SysProcAttr = child.Attributes(syscall.SIGINT) // a Ctrl-C, which would stop a server too early, does not reach it
	cmd.SysProcAttr.Credential = owner.credential()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// run runs a command to its end. The error includes the last lines of the output.
func run(cmd *exec.Cmd) error {
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	p, err := child.Start(cmd)
	if err != nil {
		return err
	}
	if err := p.Wait(); err != nil {
		return fmt.Errorf("run %s: %w:\n%s", cmd.Path, err, lastLines(output.String(), 12))
	}
	return nil
}

// childEnv is the environment of PostgreSQL's programs, without PG… variables, which would change their behaviour.
func childEnv() []string {
	env := []string{"LC_ALL=C", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	for _, name := range []string{"LD_LIBRARY_PATH", "TMPDIR"} {
		if value, set := os.LookupEnv(name); set {
			env = append(env, name+"="+value)
		}
	}
	return env
}

const (
	pollInterval = 10 * time.Millisecond

	// orphanTimeout is the time in which a server without an owner must begin to stop by itself.
	orphanTimeout = time.Second
)

// awaitPredecessor waits until no server runs on the cluster, and removes files that would prevent a start. Call it
// under the lock: a server that still runs has lost its owner. On Linux the kernel has sent it SIGINT; if it is not
// stopping after orphanTimeout, as elsewhere, awaitPredecessor sends SIGINT.
func awaitPredecessor(ctx context.Context, cfg Config, cluster, socketDir string) error {
	timeout := time.NewTimer(orphanTimeout)
	defer timeout.Stop()
	for {
		file, found, err := readPIDFile(cluster)
		if err != nil {
			return err
		}
		if !found {
			break
		}
		if !isPostmaster(file.pid, cluster) {
			if err := disarmPIDFile(cluster, file); err != nil {
				return err
			}
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for an earlier PostgreSQL (process %d) on %s to stop: %w", file.pid, cluster,
				context.Cause(ctx))
		case <-timeout.C: // once
			if file.status == "stopping" {
				continue
			}
			cfg.Logger.WarnContext(ctx, "stopping a PostgreSQL that has lost its owner", slog.Int("pid", file.pid))
			if err := syscall.Kill(file.pid, syscall.SIGINT); err != nil {
				return fmt.Errorf("stop an earlier PostgreSQL (process %d): %w", file.pid, err)
			}
		case <-time.After(pollInterval):
		}
	}
	// Only this server uses the directory, so files of a killed server are stale. PostgreSQL would respect the lock file
	// of the socket if another process had the same id now.
	for _, name := range []string{socketName, socketName + ".lock"} {
		if err := os.Remove(filepath.Join(socketDir, name)); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("remove stale socket: %w", err)
		}
	}
	return nil
}

// isPostmaster reports whether the process is the server of this cluster. Process ids are reused, especially in
// containers, so the process may be another program.
func isPostmaster(pid int, cluster string) bool {
	if pid <= 0 || syscall.Kill(pid, 0) == syscall.ESRCH {
		return false
	}
	if runtime.GOOS != "linux" {
		return true // PostgreSQL assumes the same
	}
	proc := "/proc/" + strconv.Itoa(pid)
	commandLine, err := os.ReadFile(proc + "/cmdline")
	if err != nil {
		return !os.IsNotExist(err)
	}
	args := strings.Split(string(bytes.TrimRight(commandLine, "\x00")), "\x00")
	if slices.Contains(args[1:], cluster) {
		return true
	}
	// A server that was started by hand may spell the directory differently, but its working directory is the cluster.
	work, err := os.Stat(proc + "/cwd")
	if err != nil {
		return false
	}
	data, err := os.Stat(cluster)
	return err == nil && os.SameFile(work, data)
}

// disarmPIDFile replaces the id of a dead server by one that no process has, because PostgreSQL refuses to start while
// any process has the id. The file must stay: PostgreSQL uses its shared-memory line to check that no backend has
// survived.
func disarmPIDFile(cluster string, file pidFile) error {
	const unusedPID = "2147483647" // above the largest possible pid_max
	if syscall.Kill(file.pid, 0) == syscall.ESRCH {
		return nil
	}
	path := pidFilePath(cluster)
	handle, err := os.OpenFile(path, os.O_RDWR, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // the server was still ending, and removed its file
	case err != nil:
		return fmt.Errorf("open stale postmaster.pid: %w", err)
	}
	file.lines[0] = unusedPID
	// The text is at least as long as the old one, so that no old bytes are left.
	_, err = handle.WriteAt([]byte(strings.Join(file.lines, "\n")), 0)
	if closeErr := handle.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("rewrite stale postmaster.pid: %w", err)
	}
	return nil
}
