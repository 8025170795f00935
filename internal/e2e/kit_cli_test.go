package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const cliTimeout = 60 * time.Second

// Output is what a finished command has left behind.
type Output struct {
	Code           int // exit code
	Stdout, Stderr string
}

// CLI runs `novelgate` with the arguments on the service's database and returns whatever came of it.
func (s *Service) CLI(t testing.TB, args ...string) Output {
	t.Helper()
	return RunCLI(t, s.DatabaseURL, args...)
}

// RunCLI runs `novelgate` with the arguments on the database and returns whatever came of it.
func RunCLI(t testing.TB, databaseURL string, args ...string) Output {
	t.Helper()
	binary := binaryFor(t, args) // which may have to be built first, and takes what it takes
	ctx, cancel := context.WithTimeout(context.Background(), cliTimeout)
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

// runJSON runs the command with --json appended, wants exit code 0 and decodes standard output into into.
func (s *Service) runJSON(t testing.TB, into any, args ...string) {
	t.Helper()
	out := s.CLI(t, append(args, "--json")...)
	if out.Code != 0 {
		t.Fatalf("novelgate %s ended with %d, want 0\n%s", strings.Join(args, " "), out.Code, out.Stderr)
	}
	if err := json.Unmarshal([]byte(out.Stdout), into); err != nil {
		t.Fatalf("decode the output of novelgate %s: %v\n%s", strings.Join(args, " "), err, out.Stdout)
	}
}

// Refused runs the command and wants it to fail with a message on standard error.
func (s *Service) Refused(t testing.TB, args ...string) Output {
	t.Helper()
	out := s.CLI(t, args...)
	if out.Code == 0 || strings.TrimSpace(out.Stderr) == "" {
		t.Errorf("novelgate %s ended with %d and said %q on standard error, want a refusal with a message",
			strings.Join(args, " "), out.Code, out.Stderr)
	}
	return out
}
