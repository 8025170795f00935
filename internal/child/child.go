// Package child runs programs as children of this process. A child is in a process group of its own, so that a Ctrl-C
// reaches only this process, which then stops its children in order. On Linux a child gets a signal when this process
// dies.
package child

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Process is a child process.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the child has ended
	err  error         // of the child; valid after done
}

// Start starts cmd and waits for it in a goroutine with its own thread, because on Linux the kernel sends the
// parent-death signal when the thread that forked the child ends (prctl(2), PR_SET_PDEATHSIG).
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, done: make(chan struct{})}
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

// PID returns the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the child has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait returns when the child has ended, with the error of exec.Cmd.Wait.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Signal sends a signal, unless the child has ended.
func (p *Process) Signal(sig syscall.Signal) {
	_ = p.cmd.Process.Signal(sig) // it fails only if the child has ended; then done is closed
}

// ProcessorTime returns the processor time of an ended child.
func (p *Process) ProcessorTime() time.Duration {
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// Command returns a command that gets SIGTERM when ctx ends, and is killed 30 seconds later. Its standard error is that
// of this process.
func Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // our own programs
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	cmd.Stderr = os.Stderr
	return cmd
}

// Reporter is a child process that reports on its standard output, line by line.
type Reporter struct {
	*Process

	Stdin  io.WriteCloser
	stdout *os.File
	lines  *bufio.Scanner
}

// Launch starts cmd. On Linux it gets SIGTERM when this process dies.
func Launch(cmd *exec.Cmd) (*Reporter, error) {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("open standard input: %w", err)
	}
	stdout, writer, err := os.Pipe() // Wait would close the pipe of StdoutPipe, perhaps before all output is read
	if err != nil {
		return nil, fmt.Errorf("open standard output: %w", err)
	}
	cmd.Stdout, cmd.SysProcAttr = writer, Attributes(syscall.SIGTERM)
	process, err := Start(cmd)
	_ = writer.Close() // the child has its own copy
	if err != nil {
		return nil, errors.Join(err, stdout.Close())
	}
	return &Reporter{Process: process, Stdin: stdin, stdout: stdout, lines: bufio.NewScanner(stdout)}, nil
}

// Await reads lines until one begins with prefix, and returns the rest of this line. It fails if the output ends first.
func (r *Reporter) Await(prefix string) (string, error) {
	for r.lines.Scan() {
		if rest, ok := strings.CutPrefix(r.lines.Text(), prefix); ok {
			return strings.TrimSpace(rest), nil
		}
	}
	return "", errors.Join(fmt.Errorf("the process ended before it printed %q", prefix), r.lines.Err())
}

// Stop sends SIGTERM and waits.
func (r *Reporter) Stop() error {
	r.Signal(syscall.SIGTERM)
	return r.Wait()
}

// Wait drains the output and returns when the process has ended. Call it once.
func (r *Reporter) Wait() error {
	for r.lines.Scan() {
		continue
	}
	err := r.Process.Wait()
	_ = r.stdout.Close() // it was only read
	if err != nil {
		return fmt.Errorf("%s: %w", r.cmd.Path, err)
	}
	return nil
}
