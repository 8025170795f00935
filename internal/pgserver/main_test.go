package pgserver_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"novelgate/internal/pgserver"
	"novelgate/internal/testdb"
)

// With this variable set to a data directory, the test binary is another process that starts or attaches to a server
// and keeps it until its standard input ends.
const helperVariable = "PGSERVER_TEST_HELPER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperVariable); dir != "" {
		os.Exit(helperMain(dir))
	}
	if err := os.Setenv("PGCLIENTENCODING", "LATIN1"); err != nil { // see TestSettings
		panic(err)
	}
	code := m.Run()
	if code == 0 {
		if err := testdb.FindLeaks(); err != nil {
			fmt.Fprintln(os.Stderr, "FAIL: the tests have left goroutines behind:", err)
			code = 1
		}
	}
	os.Exit(code)
}

func helperMain(dir string) int {
	ctx := context.Background()
	server, err := pgserver.Start(ctx, pgserver.Config{DataDir: dir})
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	fmt.Println("ready", server.Owned(), server.URL())
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := server.Stop(ctx); err != nil {
		fmt.Println("error", err)
		return 1
	}
	return 0
}

// helper is such a process.
type helper struct {
	cmd   *exec.Cmd
	stdin io.Closer
	out   *bufio.Reader
}

func startHelper(t *testing.T, dir string) *helper {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0])
	cmd.Env = append(os.Environ(), helperVariable+"="+dir)
	cmd.Stderr = os.Stderr
	stdin := testdb.Must(cmd.StdinPipe())(t)
	stdout := testdb.Must(cmd.StdoutPipe())(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h := &helper{cmd: cmd, stdin: stdin, out: bufio.NewReader(stdout)}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	return h
}

// ready waits until the helper has its server and tells whether it owns it.
func (h *helper) ready(t *testing.T) (owned bool, url string) {
	t.Helper()
	line, err := h.out.ReadString('\n')
	word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	if err != nil || word != "ready" {
		t.Fatalf("helper said %q: %v", line, err)
	}
	first, url, _ := strings.Cut(rest, " ")
	return first == "true", url
}

// kill sends SIGKILL: the helper cannot stop its server.
func (h *helper) kill(t *testing.T) {
	t.Helper()
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = h.cmd.Wait()
}

// dataDir is t.TempDir in memory, if possible, because most of the time of these tests is fsyncs of initdb.
func dataDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "novelgate-pgserver-test-*")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
