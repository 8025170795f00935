package pgserver_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"novelgate/internal/pgserver"
	"novelgate/internal/testdb"
)

// With this variable set to a data directory, the test binary is another process that starts a server and keeps it
// until its standard input ends.
const helperVariable = "PGSERVER_TEST_HELPER"

func TestMain(m *testing.M) {
	dir := os.Getenv(helperVariable)
	if dir == "" {
		os.Exit(testdb.Run(m))
	}
	ctx := context.Background()
	server, err := pgserver.Start(ctx, pgserver.Config{DataDir: dir})
	if err == nil {
		fmt.Println("ready", server.URL())
		_, _ = io.Copy(io.Discard, os.Stdin)
		err = server.Stop(ctx)
	}
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
}

// helper is such a process.
type helper struct {
	cmd *exec.Cmd
	out *bufio.Reader
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
	t.Cleanup(func() { _ = stdin.Close(); _ = cmd.Wait() })
	return &helper{cmd: cmd, out: bufio.NewReader(stdout)}
}

// ready waits until the helper has its server, and returns its URL.
func (h *helper) ready(t *testing.T) string {
	t.Helper()
	line, err := h.out.ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if err != nil || !ok {
		t.Fatalf("helper said %q: %v", line, err)
	}
	return url
}

// kill sends SIGKILL: the helper cannot stop its server.
func (h *helper) kill(t *testing.T) {
	t.Helper()
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = h.cmd.Wait()
}

// emptyDir returns a data directory in memory, if possible, because most of the time of these tests is initdb.
func emptyDir(t *testing.T) string {
	t.Helper()
	dir := testdb.Must(testdb.DataDir())(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// filled is the data directory of a stopped server, with the table kept.
var filled = sync.OnceValues(func() (string, error) {
	dir, err := testdb.DataDir()
	if err != nil {
		return "", err
	}
	ctx := context.Background()
	server, err := pgserver.Start(ctx, pgserver.Config{DataDir: dir})
	if err != nil {
		return "", err
	}
	conn, err := pgx.Connect(ctx, server.URL())
	if err != nil {
		return "", err
	}
	if _, err := conn.Exec(ctx, `CREATE TABLE kept AS SELECT 1 AS n`); err != nil {
		return "", err
	}
	return dir, server.Stop(ctx)
})

// dataDir returns a data directory with a table.
func dataDir(t *testing.T) string {
	t.Helper()
	dir := emptyDir(t)
	from := cluster(t, testdb.Must(filled())(t))
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", from, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// start starts a server and stops it at the end of the test.
func start(t *testing.T, cfg pgserver.Config) *pgserver.Server {
	t.Helper()
	server := testdb.Must(pgserver.Start(t.Context(), cfg))(t)
	t.Cleanup(func() { _ = server.Stop(context.Background()) })
	return server
}

func stop(t *testing.T, server *pgserver.Server) {
	t.Helper()
	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func query[T any](t *testing.T, url, sql string, args ...any) T {
	t.Helper()
	conn := testdb.Must(pgx.Connect(t.Context(), url))(t)
	defer func() { _ = conn.Close(context.Background()) }()
	return testdb.Value[T](t, conn, sql, args...)
}

// wantKept checks the table of filled.
func wantKept(t *testing.T, url string) {
	t.Helper()
	if got := query[int](t, url, `SELECT n FROM kept`); got != 1 {
		t.Errorf("kept %d", got)
	}
}

func awaitEnd(t *testing.T, server *pgserver.Server) {
	t.Helper()
	select {
	case <-server.Done():
	case <-time.After(2 * time.Minute):
		t.Fatal("Done is not closed")
	}
}

// cluster returns the only pgNN directory of a data directory.
func cluster(t *testing.T, dataDir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dataDir, "pg[0-9][0-9]"))
	if err != nil || len(found) != 1 {
		t.Fatalf("data directories: %v, %v", found, err)
	}
	return found[0]
}

func postmaster(t *testing.T, dataDir string) int {
	t.Helper()
	content := testdb.Must(os.ReadFile(filepath.Join(cluster(t, dataDir), "postmaster.pid")))(t)
	first, _, _ := strings.Cut(string(content), "\n")
	return testdb.Must(strconv.Atoi(first))(t)
}

func signal(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}

// uid returns the owner of a file.
func uid(t *testing.T, path string) uint32 {
	t.Helper()
	return testdb.Must(os.Stat(path))(t).Sys().(*syscall.Stat_t).Uid
}

// publicDir is a temporary directory that every user can enter.
func publicDir(t *testing.T) string {
	t.Helper()
	dir := testdb.Must(os.MkdirTemp("", "novelgate-pgserver-test-*"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
