package contest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// child is a process that says what is going on, line by line, on its standard output.
type child struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner
}

// stopDelay is how long a child may take to end after SIGTERM.
const stopDelay = 30 * time.Second

func launch(ctx context.Context, program string, args ...string) (*child, error) {
	cmd := command(ctx, program, args...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("open standard input: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("open standard output: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s %s: %w", program, args[0], err)
	}
	return &child{cmd: cmd, stdin: stdin, lines: bufio.NewScanner(stdout)}, nil
}

func command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // our own programs
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopDelay
	cmd.Stderr = os.Stderr
	return cmd
}

var errSilent = errors.New("the process ended without saying")

// await reads lines until one begins with prefix, and returns the rest of it.
func (c *child) await(prefix string) (string, error) {
	for c.lines.Scan() {
		if rest, ok := strings.CutPrefix(c.lines.Text(), prefix); ok {
			return rest, nil
		}
	}
	return "", errors.Join(fmt.Errorf("%w %q", errSilent, prefix), c.lines.Err(), c.stop())
}

// stop ends the process and waits for it.
func (c *child) stop() error {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // the only error is that it has ended
	if err := c.wait(); err != nil {
		return fmt.Errorf("stop process: %w", err)
	}
	return nil
}

// wait drains what the process still says and returns when it has ended.
func (c *child) wait() error {
	for c.lines.Scan() {
		continue
	}
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", c.cmd.Path, err)
	}
	return nil
}
