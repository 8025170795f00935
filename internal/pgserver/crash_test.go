package pgserver_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"novelgate/internal/pgserver"
)

func TestKilledOwner(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	owner := startHelper(t, dir)
	_, url := owner.ready(t)
	query(t, url, keepOne)
	orphan := postmaster(t, dir)
	owner.kill(t)

	// At once, while the orphan is shutting down.
	server := start(t, pgserver.Config{DataDir: dir})
	if !server.Owned() || server.Fresh() {
		t.Errorf("after kill -9: owned %v, fresh %v", server.Owned(), server.Fresh())
	}
	if got := query(t, server.URL(), `SELECT n FROM kept`)[0]; got != "1" {
		t.Errorf("kept %q", got)
	}
	if postmaster(t, dir) == orphan {
		t.Error("the server of the killed owner is still there")
	}
}

func TestServerGoesDownWithItsOwner(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	owner := startHelper(t, dir)
	owner.ready(t)
	attached := start(t, pgserver.Config{DataDir: dir})
	owner.kill(t)
	ended(t, attached)
	for range 6000 {
		_, err := os.Stat(filepath.Join(cluster(t, dir), "postmaster.pid"))
		if errors.Is(err, os.ErrNotExist) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the server has outlived its owner")
}

// TestKilledServerWithABusyBackend: as long as a process of the dead server may write, none must start.
func TestKilledServerWithABusyBackend(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	first := start(t, pgserver.Config{DataDir: dir})
	query(t, first.URL(), keepOne)
	conn, err := pgx.Connect(t.Context(), first.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var backend int
	if err := conn.QueryRow(t.Context(), `SELECT pg_backend_pid()`).Scan(&backend); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(syscall.Kill(backend, syscall.SIGSTOP),
		syscall.Kill(postmaster(t, dir), syscall.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	ended(t, first)
	stop(t, first)
	released := make(chan struct{})
	time.AfterFunc(time.Second, func() {
		close(released)
		_ = syscall.Kill(backend, syscall.SIGCONT)
	})

	second := start(t, pgserver.Config{DataDir: dir})
	select {
	case <-released:
	default:
		t.Error("the server has started beside a process of the dead one")
	}
	if got := query(t, second.URL(), `SELECT n FROM kept`)[0]; got != "1" {
		t.Errorf("kept %q", got)
	}
}

// TestReusedProcessNumber: after a crash the number in postmaster.pid may belong to another process of
// the same user, as in a container, where numbers are small. PostgreSQL alone would refuse to start.
func TestReusedProcessNumber(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	first := start(t, pgserver.Config{DataDir: dir})
	query(t, first.URL(), keepOne)
	if err := syscall.Kill(postmaster(t, dir), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ended(t, first)
	stop(t, first)

	info, err := os.Stat(cluster(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	other := exec.CommandContext(t.Context(), "sleep", "600")
	if os.Geteuid() == 0 {
		owner := info.Sys().(*syscall.Stat_t)
		other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Wait() })
	replaceProcessNumber(t, filepath.Join(cluster(t, dir), "postmaster.pid"), other.Process.Pid)

	second := start(t, pgserver.Config{DataDir: dir})
	if got := query(t, second.URL(), `SELECT n FROM kept`)[0]; got != "1" {
		t.Errorf("kept %q", got)
	}
}

func replaceProcessNumber(t *testing.T, path string, pid int) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(content), "\n")
	if err := os.WriteFile(path, []byte(strconv.Itoa(pid)+"\n"+rest), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestServerCleansUpMeanwhile: a server that is about to end looks dead, and removes its file a moment later.
func TestServerCleansUpMeanwhile(t *testing.T) {
	t.Parallel()
	if err := pgserver.DisarmPIDFile(t.TempDir(), os.Getpid(), strconv.Itoa(os.Getpid())); err != nil {
		t.Error(err)
	}
}

// TestKilledInitdb kills a process in the middle of its first start.
func TestKilledInitdb(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	owner := startHelper(t, dir)
	for {
		// By the time that this file exists, the directory looks like data.
		begun, err := filepath.Glob(filepath.Join(dir, "pg*.init-*", "PG_VERSION"))
		if err != nil {
			t.Fatal(err)
		}
		if len(begun) > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	owner.kill(t)

	server := start(t, pgserver.Config{DataDir: dir})
	if !server.Fresh() {
		t.Error("half an initdb was taken for data")
	}
	if leftovers, err := filepath.Glob(filepath.Join(dir, "pg*.init-*")); err != nil || len(leftovers) > 0 {
		t.Errorf("left over: %v, %v", leftovers, err)
	}
}

// TestOtherMajorVersionIsRefused: data of a version that is not installed, and data in a directory that is named after
// another version, stay as they are.
func TestOtherMajorVersionIsRefused(t *testing.T) {
	t.Parallel()
	newer, renamed := dataDir(t), dataDir(t)
	if err := os.Mkdir(filepath.Join(newer, "pg99"), 0o700); err != nil {
		t.Fatal(err)
	}
	stop(t, start(t, pgserver.Config{DataDir: renamed}))
	for dir, version := range map[string]string{newer: "99\n", renamed: "14\n"} {
		file := filepath.Join(cluster(t, dir), "PG_VERSION")
		if err := os.WriteFile(file, []byte(version), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := pgserver.Start(t.Context(), pgserver.Config{DataDir: dir})
		if !errors.Is(err, pgserver.ErrVersionMismatch) {
			t.Errorf("error = %v", err)
		}
		if got := read(t, file); got != version {
			t.Errorf("the data was touched: %q", got)
		}
	}
}
