package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"novelgate/internal/testdb"
)

const novelgate = "novelgate/cmd/novelgate"

var (
	binaries = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "novelgate-e2e-") })
	binary   = sync.OnceValues(func() (string, error) { return build(novelgate, "novelgate", raceDetector) })
	plain    = sync.OnceValues(func() (string, error) { return build(novelgate, "plain/novelgate", false) })
)

// Binary returns the path of cmd/novelgate, built once per test process. It has the race detector if the tests have it,
// and writes coverage if GOCOVERDIR is set.
func Binary(t testing.TB) string {
	t.Helper()
	return testdb.Must(binary())(t)
}

// binaryFor returns the program for a command line: without the race detector, which dominates the time of short
// commands, unless the command is concurrent.
func binaryFor(t testing.TB, args []string) string {
	t.Helper()
	sideBySide := []string{"analytics", "events", "ledger", "projection"}
	if !raceDetector || len(args) > 0 && slices.Contains(sideBySide, args[0]) {
		return Binary(t)
	}
	return testdb.Must(plain())(t)
}

// removeBinaries deletes what was built.
func removeBinaries() error {
	dir, err := binaries()
	if err == nil {
		err = os.RemoveAll(dir)
	}
	return err
}

// build builds a program.
func build(program, name string, race bool) (path string, err error) {
	dir, err := binaries()
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, name)
	args := []string{"build", "-o", path}
	if race {
		args = append(args, "-race")
	}
	if os.Getenv("GOCOVERDIR") != "" {
		args = append(args, "-cover", "-coverpkg=novelgate/...")
	}
	out, err := exec.CommandContext(context.Background(), "go", append(args, program)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("run go build: %w\n%s", err, out)
	}
	return path, nil
}

// process is one run of the program.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr *testdb.Log
	exited         chan struct{} // closed when the process has ended
	killed         bool
}

// launch starts novelgate like launchProgram.
func launch(t testing.TB, args ...string) *process {
	t.Helper()
	return launchProgram(t, Binary(t), args...)
}

// launchProgram starts a program in an environment without settings of the service. When the test ends, the program is
// killed, and its standard error must not contain a secret.
func launchProgram(t testing.TB, program string, args ...string) *process {
	t.Helper()
	p := &process{
		cmd:    exec.CommandContext(context.Background(), program, args...),
		stdout: &testdb.Log{}, stderr: &testdb.Log{}, exited: make(chan struct{}),
	}
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(setting string) bool {
		return strings.HasPrefix(setting, "NOVELGATE_") || strings.HasPrefix(setting, "DATABASE_URL=")
	})
	p.cmd.Stdout, p.cmd.Stderr = p.stdout, p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start novelgate %s: %v", strings.Join(args, " "), err)
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // see ProcessState
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
			t.Logf("novelgate %s said at last:\n%s", strings.Join(args, " "), lastLines(said, 12))
		}
	})
	return p
}

// kill sends SIGKILL and waits for the end.
func (p *process) kill() {
	p.killed = true
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.exited
}

func (p *process) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Errorf("send %v: %v", signal, err)
	}
}

// wait returns the exit code. It fails the test when the process does not end.
func (p *process) wait(t testing.TB) int {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		t.Fatalf("the process has not ended within %v\n%s", patience, lastLines(p.stderr.String(), 12))
	}
	return p.cmd.ProcessState.ExitCode()
}

// line waits for a line on standard output that begins with prefix and returns the rest of it.
func (p *process) line(t testing.TB, prefix string) (rest string) {
	t.Helper()
	testdb.Eventually(t, "the process says "+prefix, func() bool {
		select {
		case <-p.exited:
			t.Fatalf("the process ended with %d before it said %q\n%s", p.cmd.ProcessState.ExitCode(), prefix, p.stderr)
		default:
		}
		for text := range strings.Lines(p.stdout.String()) {
			var found bool
			if rest, found = strings.CutPrefix(text, prefix); found && strings.HasSuffix(rest, "\n") {
				rest = strings.TrimSpace(rest)
				return true
			}
		}
		return false
	})
	return rest
}

func lastLines(text string, n int) string {
	lines := strings.SplitAfter(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n-1):], "")
}

// Output is the result of a finished command.
type Output struct {
	Code           int // exit code
	Stdout, Stderr string
}

// RunCLI runs `novelgate` on the database and returns the result.
func RunCLI(t testing.TB, databaseURL string, args ...string) Output {
	t.Helper()
	binary := binaryFor(t, args) // which may have to be built first, and takes what it takes
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(cmd.Environ(), "NOVELGATE_DATABASE_URL="+databaseURL)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("run novelgate %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return Output{Code: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}
}

// MustCLI is RunCLI for a command that must succeed.
func MustCLI(t testing.TB, databaseURL string, args ...string) Output {
	t.Helper()
	return (&Service{DatabaseURL: databaseURL}).MustCLI(t, args...)
}

// CLI runs `novelgate` on the service's database and returns the result.
func (s *Service) CLI(t testing.TB, args ...string) Output {
	t.Helper()
	out := RunCLI(t, s.DatabaseURL, args...)
	if s.heard != nil {
		_, _ = fmt.Fprintln(s.heard, out)
	}
	return out
}

// MustCLI is CLI for a command that must succeed.
func (s *Service) MustCLI(t testing.TB, args ...string) Output {
	t.Helper()
	out := s.CLI(t, args...)
	if out.Code != 0 {
		t.Fatalf("novelgate %s ended with %d, want 0\n%s%s", strings.Join(args, " "), out.Code, out.Stdout, out.Stderr)
	}
	return out
}

// runJSON runs the command with --json, expects exit code 0 and decodes standard output into into.
func (s *Service) runJSON(t testing.TB, into any, args ...string) {
	t.Helper()
	out := s.MustCLI(t, append(args, "--json")...)
	if err := json.Unmarshal([]byte(out.Stdout), into); err != nil {
		t.Fatalf("decode the output of novelgate %s: %v\n%s", strings.Join(args, " "), err, out.Stdout)
	}
}

// Refused runs the command and expects a failure with a message on standard error.
func (s *Service) Refused(t testing.TB, args ...string) Output {
	t.Helper()
	out := s.CLI(t, args...)
	if out.Code == 0 || strings.TrimSpace(out.Stderr) == "" {
		t.Errorf("novelgate %s ended with %d and said %q on standard error, want a refusal with a message",
			strings.Join(args, " "), out.Code, out.Stderr)
	}
	return out
}

// scaled returns the number in a variable of the environment, or else few.
func scaled(t testing.TB, variable string, few int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return few
	}
	return testdb.Must(strconv.Atoi(text))(t)
}
