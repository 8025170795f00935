package system

import (
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
)

// Child is a child process. With ChildAttributes it is in a process group of its own: a Ctrl-C reaches only this
// process, which then stops its children in order.
type Child struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the child has ended
	err  error         // of the child; valid after done
}

// StartChild starts cmd and waits for it in a goroutine with its own thread, because on Linux the kernel sends the
// parent-death signal when the thread that forked the child ends (prctl(2), PR_SET_PDEATHSIG).
func StartChild(cmd *exec.Cmd) (*Child, error) {
	c := &Child{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			c.err = cmd.Wait()
		}
		close(c.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return c, nil
}

// PID returns the id of the process.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Done is closed when the child has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Wait returns when the child has ended, with the error of exec.Cmd.Wait.
func (c *Child) Wait() error {
	<-c.done
	return c.err
}

// Signal sends a signal, unless the child has ended.
func (c *Child) Signal(sig syscall.Signal) {
	_ = c.cmd.Process.Signal(sig) // it fails only if the child has ended; then done is closed
}
