// Package child runs programs as children of this process. A child is in a process group of its own, so that a Ctrl-C
// reaches only this process, which then stops its children in order. On Linux a child gets a signal when this process
// dies.
package child

import (
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
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
