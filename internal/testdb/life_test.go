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
	"time"

	"novelgate/internal/testdb"
)

// These tests run the test binary again with its own TMPDIR, so that it has its own server.
const childVariable = "TESTDB_TEST_CHILD"

// TestChild is the test of such a process.
func TestChild(t *testing.T) {
	switch os.Getenv(childVariable) {
	case "hold": // keep a database until the standard input ends
		fmt.Println("url", testdb.ServerURL(t))
		query(t, testdb.New(t), `SELECT 'ok'`)
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "leak":
		go func() { select {} }()
	}
}

// tempDir returns a TMPDIR for children. It is deleted after the test, once the holder of their server has ended.
func tempDir(t *testing.T) string {
	t.Helper()
	tmp := t.TempDir()
	t.Cleanup(func() {
		holder, err := os.Open(filepath.Join(tmp, fmt.Sprintf("novelgate-testdb-%d", os.Geteuid()), "holder"))
		if os.IsNotExist(err) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = holder.Close() }()
		for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
			err = syscall.Flock(int(holder.Fd()), syscall.LOCK_EX)
		}
		if err != nil {
			t.Error(err)
		}
	})
	return tmp
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

// dataOf returns the data directory of the server at url.
func dataOf(t *testing.T, url string) string {
	t.Helper()
	return filepath.Dir(query(t, url, `SHOW data_directory`))
}

// gone waits until the data of a stopped server has been deleted.
func gone(t *testing.T, data string) {
	t.Helper()
	for range 6000 {
		if _, err := os.Stat(data); os.IsNotExist(err) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%s is still there", data)
}

func TestServerStopsWithTheLastUser(t *testing.T) {
	t.Parallel()
	tmp := tempDir(t)
	first, second := startChild(t, tmp), startChild(t, tmp)
	if first.url != second.url {
		t.Errorf("two servers: %s, %s", first.url, second.url)
	}
	data := dataOf(t, first.url)
	first.leave()
	query(t, second.url, `SELECT 'ok'`)
	second.leave()
	gone(t, data)

	third := startChild(t, tmp)
	query(t, third.url, `SELECT 'ok'`)
}

func TestKilledUser(t *testing.T) {
	t.Parallel()
	user := startChild(t, tempDir(t))
	data := dataOf(t, user.url)
	user.kill()
	gone(t, data)
}

func TestKilledHolder(t *testing.T) {
	t.Parallel()
	tmp := tempDir(t)
	user := startChild(t, tmp)
	data := dataOf(t, user.url)
	killHolder(t, tmp)
	user.kill()

	next := startChild(t, tmp)
	query(t, next.url, `SELECT 'ok'`)
	gone(t, data)
}

// killHolder ends the process that holds the server of the control directory below tmp.
func killHolder(t *testing.T, tmp string) {
	t.Helper()
	holders := testdb.Must(filepath.Glob("/proc/[0-9]*/environ"))(t)
	for _, environ := range holders {
		content, err := os.ReadFile(environ)
		if err != nil || !strings.Contains(string(content), "NOVELGATE_TESTDB_HOLDER=") ||
			!strings.Contains(string(content), "TMPDIR="+tmp+"\x00") {
			continue
		}
		var pid int
		testdb.Must(fmt.Sscanf(environ, "/proc/%d/", &pid))(t)
		process, err := os.FindProcess(pid)
		if err != nil {
			t.Fatal(err)
		}
		if err := process.Kill(); err != nil {
			t.Fatal(err)
		}
		awaitUnlocked(t, filepath.Join(tmp, fmt.Sprintf("novelgate-testdb-%d", os.Geteuid()), "holder"))
		return
	}
	t.Error("no holder found")
}

// awaitUnlocked waits until the process that holds a lock has ended.
func awaitUnlocked(t *testing.T, path string) {
	t.Helper()
	file := testdb.Must(os.Open(path))(t)
	defer func() { _ = file.Close() }()
	testdb.Eventually(t, path+" is unlocked", func() bool {
		return syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil
	})
}

// TestServerWaitsForTheNextPackage: between two packages of one `go test`, no process uses the server.
func TestServerWaitsForTheNextPackage(t *testing.T) {
	t.Parallel()
	tmp := tempDir(t)
	first := startChild(t, tmp)
	data := dataOf(t, first.url)
	left := time.Now()
	first.leave()
	second := startChild(t, tmp)
	const linger = 5 * time.Second // for which the server waits; a busy machine may start the second process later
	if took := time.Since(left); first.url != second.url && took < linger {
		t.Errorf("the server has not waited %v", took)
	}
	time.Sleep(6 * time.Second) // longer than a holder waits
	query(t, second.url, `SELECT 'ok'`)
	second.leave()
	gone(t, data)
}

func TestLeakedGoroutineFailsTheRun(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), childVariable+"=leak", "TMPDIR="+tempDir(t))
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "left goroutines behind") {
		t.Errorf("%v: %s", err, out)
	}
}
