package testdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"novelgate/internal/pgserver"
	"novelgate/internal/system"
)

// holderVariable is set for the holder.
const holderVariable = "NOVELGATE_TESTDB_HOLDER"

// sharedDir returns the directory of all servers of tests: in $TMPDIR if set, otherwise in memory if there is room.
func sharedDir() (string, error) {
	place := os.TempDir()
	var stat syscall.Statfs_t
	const memory, room = "/dev/shm", 1 << 30
	if os.Getenv("TMPDIR") == "" && syscall.Statfs(memory, &stat) == nil &&
		stat.Bavail*uint64(stat.Bsize) >= room { //nolint:gosec // a block size is positive
		place = memory
	}
	dir := filepath.Join(place, fmt.Sprintf("novelgate-tests-%d", os.Geteuid()))
	// As root, PostgreSQL runs as another user, who must pass. What is in the directory is private.
	if err := os.Mkdir(dir, 0o711); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // see above
		return "", fmt.Errorf("make directory: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("inspect directory: %w", err)
	}
	// Its parent may be writable for all users.
	if stat, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || !ok || int(stat.Uid) != os.Geteuid() {
		return "", fmt.Errorf("%s is not a directory of this user: remove it", dir)
	}
	return dir, nil
}

// lockUsers locks the file whose users keep the shared directory.
func lockUsers(dir string, how int) (*os.File, error) {
	return system.Lock(filepath.Join(dir, usersFile), os.O_RDWR|os.O_CREATE, how)
}

const (
	usersFile  = "users"
	serverData = "shared" // the directory of the shared server
)

// membership is what a process knows of the shared directory.
type membership struct {
	dir, url string // url is that of the shared server
	lock     *os.File
	err      error
}

// member is the membership of this process, which lasts as long as the process. It begins with the first test that
// needs a server, and starts the holder if there is none.
var member = sync.OnceValue(func() (m membership) {
	if !running.Load() {
		m.err = errors.New("the package needs: func TestMain(m *testing.M) { os.Exit(testdb.Run(m)) }")
		return m
	}
	if m.dir, m.err = sharedDir(); m.err != nil {
		return m
	}
	if m.lock, m.err = lockUsers(m.dir, syscall.LOCK_SH); m.err != nil { // waits for a holder that is ending
		return m
	}
	var starting *os.File // one process starts the holder, the others find its server
	if starting, m.err = system.Lock(m.dir, os.O_RDONLY, syscall.LOCK_EX); m.err != nil {
		return m
	}
	defer starting.Close() //nolint:errcheck // it was only locked
	data := filepath.Join(m.dir, serverData)
	m.url, m.err = pgserver.Find(context.Background(), data)
	if errors.Is(m.err, pgserver.ErrNotRunning) {
		if m.err = startHolder(); m.err == nil {
			m.url, m.err = pgserver.Find(context.Background(), data)
		}
	}
	return m
})

// startHolder starts this test binary once more, as the holder, and returns when that has a server.
func startHolder() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find test binary: %w", err)
	}
	cmd := exec.Command(self) //nolint:gosec,noctx // it outlives this process
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), holderVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a Ctrl-C ends the tests, and then the holder ends
	said, stderr, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe for its messages: %w", err)
	}
	cmd.Stderr = stderr // not that of this process: go test waits until it is closed
	err = errors.Join(cmd.Start(), stderr.Close())
	var text []byte
	if err == nil {
		text, err = io.ReadAll(said) // until the holder closes it
	}
	_ = said.Close() // it was only read
	if err == nil && len(text) > 0 {
		err = errors.New(string(text))
	}
	if err != nil {
		return fmt.Errorf("start the shared server: %w", err)
	}
	return nil
}

// hold is the main function of the holder: it runs the shared server until no test process has used the directory for
// a while.
func hold() error {
	const interval, linger = 250 * time.Millisecond, 20 // intervals: go test may be about to start the next package
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	dir, err := sharedDir()
	if err != nil {
		return err
	}
	data := filepath.Join(dir, serverData)
	if err := remove(data); err != nil { // of a killed holder
		return err
	}
	server, err := pgserver.Start(ctx, pgserver.Config{
		DataDir: data, StopTimeout: 5 * time.Second,
		Settings: map[string]string{ // the data need not survive
			"fsync": "off", "full_page_writes": "off", "max_connections": "800", "shared_buffers": "64MB",
			"autovacuum": "off", // a template with a connected worker cannot be copied
		},
	})
	if err != nil {
		return err
	}
	_ = os.Stderr.Close() // tells startHolder that the server is ready
	var users *os.File    // locked at the end, so that the next user waits
	for unused := 0; users == nil && ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-server.Done():
			cancel()
		case <-time.After(interval):
		}
		unlocked, err := lockUsers(dir, syscall.LOCK_EX|syscall.LOCK_NB)
		switch unused++; {
		case err != nil:
			unused = 0
		case unused == linger:
			users = unlocked
		default:
			_ = unlocked.Close()
		}
	}
	_ = server.Stop(context.Background()) // its data is deleted
	if users == nil {
		return nil // processes of tests are left, perhaps with servers of their own
	}
	defer users.Close() //nolint:errcheck // it was only locked
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if entry.Name() != usersFile {
			err = errors.Join(err, remove(filepath.Join(dir, entry.Name())))
		}
	}
	return err
}

// remove deletes a directory. A server whose owner was killed may still write there until it ends by itself.
func remove(dir string) (err error) {
	for range 300 {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

// DataDir makes a directory for the data of a server, with a path that is short enough for a socket. When all test
// processes have ended, what is left of it is deleted.
func DataDir() (string, error) {
	joined := member()
	dir, err := joined.dir, joined.err
	if err == nil {
		dir, err = os.MkdirTemp(dir, "server-")
	}
	if err == nil {
		err = os.Chmod(dir, 0o711) //nolint:gosec // as the shared directory
	}
	if err != nil {
		return "", fmt.Errorf("make a data directory: %w", err)
	}
	return dir, nil
}

// NewServer starts a server that belongs only to this test, with settings beside those that make it quick to start,
// and returns the URL of its empty database. The server stops when the test ends. It is for tests of what the databases
// of a server share: roles, autovacuum, recovery.
func NewServer(t testing.TB, settings map[string]string) string {
	t.Helper()
	server := newServer(t, Must(DataDir())(t), settings)
	return Must(databaseURL(server.URL(), ""))(t)
}

func newServer(t testing.TB, dir string, settings map[string]string) *pgserver.Server {
	t.Helper()
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	all := map[string]string{"fsync": "off", "shared_buffers": "16MB"}
	maps.Copy(all, settings)
	server, err := pgserver.Start(t.Context(), pgserver.Config{DataDir: dir, Settings: all, StopTimeout: Patience})
	if err != nil {
		t.Fatalf("testdb: start a server: %v", err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Errorf("testdb: stop the server: %v", err)
		}
	})
	return server
}
