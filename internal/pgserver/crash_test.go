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

	"novelgate/internal/pgserver"
	"novelgate/internal/testdb"
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
	kept(t, server.URL())
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
	testdb.Eventually(t, "the server ends with its owner", func() bool {
		_, err := os.Stat(filepath.Join(cluster(t, dir), "postmaster.pid"))
		return errors.Is(err, os.ErrNotExist)
	})
}

// TestKilledServerWithABusyBackend: while a process of the dead server may write, no new server may start.
func TestKilledServerWithABusyBackend(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	first := start(t, pgserver.Config{DataDir: dir})
	query(t, first.URL(), keepOne)
	_, pid := backend(t, first)
	signal(t, pid, syscall.SIGSTOP)
	signal(t, postmaster(t, dir), syscall.SIGKILL)
	ended(t, first)
	stop(t, first)
	released := make(chan struct{})
	time.AfterFunc(time.Second, func() {
		close(released)
		_ = syscall.Kill(pid, syscall.SIGCONT)
	})

	second := start(t, pgserver.Config{DataDir: dir})
	select {
	case <-released:
	default:
		t.Error("the server has started beside a process of the dead one")
	}
	kept(t, second.URL())
}

// TestReusedProcessNumber: after a crash the id in postmaster.pid may belong to another process of the same user, as in
// a container, where ids are small. PostgreSQL alone would refuse to start.
func TestReusedProcessNumber(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	first := start(t, pgserver.Config{DataDir: dir})
	query(t, first.URL(), keepOne)
	signal(t, postmaster(t, dir), syscall.SIGKILL)
	ended(t, first)
	stop(t, first)

	info := testdb.Must(os.Stat(cluster(t, dir)))(t)
	other := exec.CommandContext(t.Context(), "sleep", "600")
	if os.Geteuid() == 0 {
		owner := info.Sys().(*syscall.Stat_t)
		other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Wait() })
	pidFile := filepath.Join(cluster(t, dir), "postmaster.pid")
	_, rest, _ := strings.Cut(read(t, pidFile), "\n")
	if err := os.WriteFile(pidFile, []byte(strconv.Itoa(other.Process.Pid)+"\n"+rest), 0o600); err != nil {
		t.Fatal(err)
	}

	second := start(t, pgserver.Config{DataDir: dir})
	kept(t, second.URL())
}

// TestServerCleansUpMeanwhile: a server that is ending looks dead, and removes its file a moment later.
func TestServerCleansUpMeanwhile(t *testing.T) {
	t.Parallel()
	if err := pgserver.DisarmPIDFile(t.TempDir(), os.Getpid(), strconv.Itoa(os.Getpid())); err != nil {
		t.Error(err)
	}
}

// TestKilledInitdb kills a process during its first start.
func TestKilledInitdb(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	owner := startHelper(t, dir)
	testdb.Eventually(t, "the directory of initdb looks like data", func() bool {
		begun, _ := filepath.Glob(filepath.Join(dir, "pg*.init-*", "PG_VERSION"))
		return len(begun) > 0
	})
	owner.kill(t)

	server := start(t, pgserver.Config{DataDir: dir})
	if !server.Fresh() {
		t.Error("half an initdb was taken for data")
	}
	if leftovers, err := filepath.Glob(filepath.Join(dir, "pg*.init-*")); err != nil || len(leftovers) > 0 {
		t.Errorf("left over: %v, %v", leftovers, err)
	}
}

// TestOtherMajorVersionIsRefused: data of a version that is not installed, and data in a directory named after another
// version, stay unchanged.
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
