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
)

// process is a child that dies with us.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the child has been waited for
	err  error         // how it ended; read after done
}

// launch starts cmd and waits for it in one goroutine that keeps its thread: on Linux the kernel sends
// the parent-death signal when the thread that forked the child ends, not when the process does
// (prctl(2), PR_SET_PDEATHSIG).
func launch(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) signal(sig syscall.Signal) {
	// The only error is that the child has ended already, and then done says so.
	_ = p.cmd.Process.Signal(sig)
}

// stop sends SIGINT (fast shutdown), after the time-out or when ctx is done SIGQUIT (immediate
// shutdown), and when even that does not help SIGKILL. It returns when the child has ended.
func (p *process) stop(ctx context.Context, timeout time.Duration) error {
	const patience = 10 * time.Second // a postmaster kills its backends 5 s after SIGQUIT
	p.signal(syscall.SIGINT)
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	case <-time.After(timeout):
	}
	p.signal(syscall.SIGQUIT)
	select {
	case <-p.done:
		return errors.New("PostgreSQL did not shut down in time and was stopped at once; the next start recovers")
	case <-time.After(patience):
	}
	p.signal(syscall.SIGKILL)
	<-p.done
	return errors.New("PostgreSQL had to be killed; the next start recovers")
}

// command is a program of PostgreSQL that an account runs in dir. The end of ctx interrupts it, so that it tidies up.
func command(ctx context.Context, who account, dir, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // chosen by findBinaries
	cmd.Dir = dir
	cmd.Env = childEnv()
	cmd.SysProcAttr = childAttributes(who)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// run runs a command that must not outlive us. Its error has what the program said last.
func run(cmd *exec.Cmd) error {
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	p, err := launch(cmd)
	if err != nil {
		return err
	}
	if <-p.done; p.err != nil {
		return fmt.Errorf("run %s: %w:\n%s", cmd.Path, p.err, lastLines(said.String(), 12))
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

const (
	pollInterval = 10 * time.Millisecond

	// orphanGrace is how long a server without an owner may look undisturbed before it is told to stop.
	orphanGrace = time.Second
)

// awaitPredecessor waits until no server runs on the cluster and leaves nothing behind that would keep
// the next one from starting. Call it under the lock: a server that still runs then has lost its owner. On
// Linux it has been told to stop already; a server without an owner is told here.
func awaitPredecessor(ctx context.Context, cfg Config, cluster, socketDir string) error {
	var told bool
	started := time.NewTimer(orphanGrace)
	defer started.Stop()
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
		case <-started.C:
			if !told && file.status != "stopping" {
				cfg.Logger.WarnContext(ctx, "stopping a PostgreSQL that has lost its owner", slog.Int("pid", file.pid))
				if err := syscall.Kill(file.pid, syscall.SIGINT); err != nil {
					return fmt.Errorf("stop an earlier PostgreSQL (process %d): %w", file.pid, err)
				}
			}
			told = true
		case <-time.After(pollInterval):
		}
	}
	// The directory is only for this server, so what a killed server left in it is dead. PostgreSQL would take the
	// lock file of the socket seriously if another process has its number now.
	for _, name := range []string{socketName, socketName + ".lock"} {
		if err := os.Remove(filepath.Join(socketDir, name)); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("remove stale socket: %w", err)
		}
	}
	return nil
}

// isPostmaster tells whether the process is the server of this cluster. Process numbers are reused,
// above all in containers, so that being alive proves nothing.
func isPostmaster(pid int, cluster string) bool {
	if pid <= 0 || syscall.Kill(pid, 0) == syscall.ESRCH {
		return false
	}
	if runtime.GOOS != "linux" {
		return true // as PostgreSQL itself judges
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
	// A server started by hand may spell the directory in another way; it works inside of it.
	work, err := os.Stat(proc + "/cwd")
	if err != nil {
		return false
	}
	data, err := os.Stat(cluster)
	return err == nil && os.SameFile(work, data)
}

// disarmPIDFile replaces the process number of a dead server by one that no process has. PostgreSQL
// refuses to start while any process has the number. The file stays otherwise, because
// PostgreSQL checks with its shared-memory line that no backend has survived.
func disarmPIDFile(cluster string, file pidFile) error {
	const nobodysPID = "2147483647" // above the largest possible pid_max
	if syscall.Kill(file.pid, 0) == syscall.ESRCH {
		return nil
	}
	path := pidFilePath(cluster)
	handle, err := os.OpenFile(path, os.O_RDWR, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // the server was not dead yet: it has removed its file as the last thing it did
	case err != nil:
		return fmt.Errorf("open stale postmaster.pid: %w", err)
	}
	file.lines[0] = nobodysPID
	// Longer than before or equally long, so that nothing of the old content is left.
	_, err = handle.WriteAt([]byte(strings.Join(file.lines, "\n")), 0)
	if closeErr := handle.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("rewrite stale postmaster.pid: %w", err)
	}
	return nil
}
