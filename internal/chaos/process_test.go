package chaos_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"novelgate/internal/blackbox"
	"novelgate/internal/testdb"
)

// patience is how long a test waits for what must come. It is no promise: the machine may be busy with other work.
const patience = testdb.UntilSettled

// process is one run of the binary. All that it says on standard error is searched for secrets when the test ends.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr *blackbox.Capture
	exited         chan struct{} // closed when the process has ended
}

// launch starts the binary with the arguments, in an environment without settings of its own.
func launch(t testing.TB, args ...string) *process {
	t.Helper()
	p := &process{
		cmd:    exec.CommandContext(context.Background(), blackbox.Binary(t), args...),
		stdout: &blackbox.Capture{}, stderr: &blackbox.Capture{}, exited: make(chan struct{}),
	}
	for _, setting := range os.Environ() {
		if !strings.HasPrefix(setting, "NOVELGATE_") && !strings.HasPrefix(setting, "DATABASE_URL=") {
			p.cmd.Env = append(p.cmd.Env, setting)
		}
	}
	p.cmd.Stdout, p.cmd.Stderr = p.stdout, p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start novelgate %s: %v", strings.Join(args, " "), err)
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // ProcessState tells
	}()
	t.Cleanup(func() {
		p.kill()
		said := p.stderr.String()
		wantNoSecret(t, "standard error of novelgate "+args[0], []byte(said))
		for _, disaster := range []string{"DATA RACE", "panic"} {
			if at := strings.Index(said, disaster); at >= 0 {
				t.Errorf("novelgate %s: %.4000s", args[0], said[max(0, at-200):])
			}
		}
		if t.Failed() {
			t.Logf("novelgate %s said at last:\n%s", strings.Join(args, " "), lastLines(p.stderr.String(), 12))
		}
	})
	return p
}

// kill sends SIGKILL and waits for the end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.exited
}

func (p *process) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Errorf("send %v: %v", signal, err)
	}
}

// wait returns the exit code, and fails the test when the process does not end within the time.
func (p *process) wait(t testing.TB, within time.Duration) int {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(within):
		t.Fatalf("the process has not ended within %v\n%s", within, lastLines(p.stderr.String(), 12))
	}
	return p.cmd.ProcessState.ExitCode()
}

// line waits for a line on standard output that begins with prefix and returns the rest of it.
func (p *process) line(t testing.TB, prefix string) string {
	t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		for text := range strings.Lines(p.stdout.String()) {
			if rest, ok := strings.CutPrefix(text, prefix); ok && strings.HasSuffix(rest, "\n") {
				return strings.TrimSpace(rest)
			}
		}
		select {
		case <-p.exited:
			t.Fatalf("the process ended with %d before it said %q\n%s", p.cmd.ProcessState.ExitCode(), prefix, p.stderr)
		case <-timeout.C:
			t.Fatalf("the process has not said %q\n%s", prefix, p.stderr)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func lastLines(text string, n int) string {
	lines := strings.SplitAfter(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n-1):], "")
}
