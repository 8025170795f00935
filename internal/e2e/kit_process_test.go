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
	"testing"
)

var (
	binaries = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "novelgate-e2e-") })
	binary   = sync.OnceValues(func() (string, error) { return build("novelgate", raceDetector) })
	plain    = sync.OnceValues(func() (string, error) { return build("plain/novelgate", false) })
)

// Binary returns the path of cmd/novelgate, built once per test process. It has the race detector if the tests have it,
// and writes coverage if GOCOVERDIR is set.
func Binary(t testing.TB) string {
	t.Helper()
	return built(t, binary)
}

// binaryFor returns the program for a command line: without the race detector, which dominates the time of short
// commands, unless the command is concurrent.
func binaryFor(t testing.TB, args []string) string {
	t.Helper()
	sideBySide := []string{"analytics", "events", "ledger", "projection"}
	if !raceDetector || len(args) > 0 && slices.Contains(sideBySide, args[0]) {
		return Binary(t)
	}
	return built(t, plain)
}

func built(t testing.TB, program func() (string, error)) string {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatalf("build novelgate: %v", err)
	}
	return path
}

// removeBinaries deletes what was built.
func removeBinaries() error {
	dir, err := binaries()
	if err == nil {
		err = os.RemoveAll(dir)
	}
	if err != nil {
		return fmt.Errorf("remove the built binaries: %w", err)
	}
	return nil
}

// build builds cmd/novelgate.
func build(name string, race bool) (path string, err error) {
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
	args = append(args, "novelgate/cmd/novelgate")
	out, err := exec.CommandContext(context.Background(), "go", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("run go build: %w\n%s", err, out)
	}
	return path, nil
}

// Capture is an io.Writer that keeps what is written to it, or the newest Max bytes if Max is not 0. It is safe for
// concurrent use.
type Capture struct {
	Max  int
	mu   sync.Mutex
	data bytes.Buffer
}

// Write never fails.
func (c *Capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.data.Write(p)
	if c.Max > 0 {
		c.data.Next(max(0, c.data.Len()-c.Max))
	}
	return n, err
}

func (c *Capture) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.data.String()
}

// Output is the result of a finished command.
type Output struct {
	Code           int // exit code
	Stdout, Stderr string
}

// CLI runs `novelgate` on the service's database and returns the result.
func (s *Service) CLI(t testing.TB, args ...string) Output {
	t.Helper()
	return RunCLI(t, s.DatabaseURL, args...)
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

// MustCLI is CLI for a command that must succeed.
func (s *Service) MustCLI(t testing.TB, args ...string) Output {
	t.Helper()
	return MustCLI(t, s.DatabaseURL, args...)
}

// MustCLI is RunCLI for a command that must succeed.
func MustCLI(t testing.TB, databaseURL string, args ...string) Output {
	t.Helper()
	out := RunCLI(t, databaseURL, args...)
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
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}
