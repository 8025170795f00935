package testdb_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"novelgate/internal/pgserver"
	"novelgate/internal/testdb"
)

// These tests run the test binary again with its own TMPDIR, so that it has its own server.
const childVariable = "TESTDB_TEST_CHILD"

// TestChild is the test of such a process.
func TestChild(t *testing.T) {
	switch os.Getenv(childVariable) {
	case "hold": // keep a database until the standard input ends
		testdb.Must(testdb.DataDir())(t) // as a killed test leaves it
		fmt.Println("url", testdb.ServerURL(t))
		query(t, testdb.New(t), `SELECT 'ok'`)
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "leak":
		go func() { select {} }()
	}
}

// tempDir returns a TMPDIR for children that every user can enter, and the shared directory in it. At the end of the
// test nothing may be left there but the file with the lock.
func tempDir(t *testing.T) (tmp, shared string) {
	t.Helper()
	tmp = testdb.Must(os.MkdirTemp("/tmp", "testdb-"))(t)
	if err := os.Chmod(tmp, 0o711); err != nil {
		t.Fatal(err)
	}
	shared = filepath.Join(tmp, fmt.Sprintf("novelgate-tests-%d", os.Geteuid()))
	t.Cleanup(func() {
		testdb.Eventually(t, "the holder has emptied its directory", func() bool {
			left := testdb.Must(filepath.Glob(filepath.Join(tmp, "*", "*")))(t)
			return len(left) == 1 && filepath.Base(left[0]) == "users"
		})
		if err := os.RemoveAll(tmp); err != nil {
			t.Error(err)
		}
	})
	return tmp, shared
}

type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	url   string
}

func startChild(t *testing.T, tmp string) *child {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), childVariable+"=hold", "TMPDIR="+tmp, testdb.DatabaseURLVariable+"=")
	cmd.Stderr = os.Stderr
	stdin := testdb.Must(cmd.StdinPipe())(t)
	stdout := testdb.Must(cmd.StdoutPipe())(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stdin.Close(); _ = cmd.Wait() })
	c := &child{cmd: cmd, stdin: stdin}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if url, found := strings.CutPrefix(lines.Text(), "url "); found {
			c.url = url
			return c
		}
		t.Log(lines.Text())
	}
	t.Fatal("the child has ended without a server")
	return nil
}

// leave ends the child like a test process.
func (c *child) leave() {
	_ = c.stdin.Close()
	_ = c.cmd.Wait()
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// TestSharedServer: it outlives each of its users, also a killed one, and is there for the next package.
func TestSharedServer(t *testing.T) {
	t.Parallel()
	tmp, _ := tempDir(t)
	first, second := startChild(t, tmp), startChild(t, tmp)
	if first.url != second.url {
		t.Errorf("two servers: %s, %s", first.url, second.url)
	}
	first.leave()
	query(t, second.url, `SELECT 'ok'`)
	second.kill()
	startChild(t, tmp).kill()
}

// TestKilledHolder: the next one deletes what it finds, at the latest when it ends.
func TestKilledHolder(t *testing.T) {
	t.Parallel()
	tmp, shared := tempDir(t)
	user := startChild(t, tmp)
	for _, environ := range testdb.Must(filepath.Glob("/proc/[0-9]*/environ"))(t) {
		content, err := os.ReadFile(environ)
		if err != nil || !strings.Contains(string(content), "NOVELGATE_TESTDB_HOLDER=") ||
			!strings.Contains(string(content), "TMPDIR="+tmp+"\x00") {
			continue
		}
		var pid int
		testdb.Must(fmt.Sscanf(environ, "/proc/%d/", &pid))(t)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	testdb.Eventually(t, "its server has ended", func() bool {
		_, err := pgserver.Find(t.Context(), filepath.Join(shared, "shared"))
		return errors.Is(err, pgserver.ErrNotRunning)
	})
	user.kill()
	next := startChild(t, tmp)
	query(t, next.url, `SELECT 'ok'`)
}

func TestLeakedGoroutineFailsTheRun(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), childVariable+"=leak")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "left goroutines behind") {
		t.Errorf("%v: %s", err, out)
	}
}
