package pgserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
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

// runBound is cmd.CombinedOutput for a child that must not outlive us.
func runBound(cmd *exec.Cmd) ([]byte, error) {
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	p, err := launch(cmd)
	if err != nil {
		return nil, err
	}
	<-p.done
	var exit *exec.ExitError
	if p.err != nil && !errors.As(p.err, &exit) {
		return output.Bytes(), fmt.Errorf("wait for %s: %w", cmd.Path, p.err)
	}
	return output.Bytes(), p.err
}
