package testdb

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"novelgate/internal/osfile"
	"novelgate/internal/pgserver"
)

const (
	holderVariable = "NOVELGATE_TESTDB_HOLDER" // set for the holder
	pollInterval   = 20 * time.Millisecond
)

// sharedDir returns the directory of the holder and of all servers of tests: in $TMPDIR if set, otherwise in memory if
// there is room.
func sharedDir() (string, error) {
	place := os.TempDir()
	var stat syscall.Statfs_t
	const memory, room = "/dev/shm", 1 << 30
	if os.Getenv("TMPDIR") == "" && syscall.Statfs(memory, &stat) == nil &&
		stat.Bavail*uint64(stat.Bsize) >= room { //nolint:gosec // a block size is positive
		place = memory
	}
	dir := filepath.Join(place, fmt.Sprintf("novelgate-testdb-%d", os.Geteuid()))
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

// join returns a connection to the holder, after starting one if there is none.
func join() (conn net.Conn, dir string, err error) {
	var ended func() error // nil until this process has started a holder
	for deadline := time.Now().Add(Patience); time.Now().Before(deadline); time.Sleep(pollInterval) {
		if dir, err = sharedDir(); err != nil { // an ending holder has removed it
			return nil, "", err
		}
		if conn, err = net.Dial("unix", filepath.Join(dir, "socket")); err == nil { //nolint:noctx // answers at once
			if _, err = io.ReadFull(conn, make([]byte, len(welcome))); err == nil {
				return conn, dir, nil
			}
			_ = conn.Close() // that one is ending
		}
		if ended != nil {
			err = ended()
		}
		switch {
		case errors.Is(err, errRuns):
			continue
		case ended != nil && err != nil:
			return nil, "", err
		}
		if ended, err = startHolder(); err != nil {
			return nil, "", err
		}
	}
	return nil, "", fmt.Errorf("no test server within %v: %w", Patience, err)
}

const welcome = "welcome\n"

var errRuns = errors.New("it has not ended")

// startHolder starts this test binary once more, as the holder. ended returns errRuns, or how the process has ended.
func startHolder() (ended func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find test binary: %w", err)
	}
	output, err := os.CreateTemp("", "novelgate-testdb-*")
	if err != nil {
		return nil, fmt.Errorf("make a file for its messages: %w", err)
	}
	_ = os.Remove(output.Name())
	cmd := exec.Command(self) //nolint:gosec,noctx // it outlives this process
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), holderVariable+"=1")
	cmd.Stdout, cmd.Stderr = output, output // not those of this process: go test waits until they are closed
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start holder: %w", err), output.Close())
	}
	return func() error {
		var status syscall.WaitStatus
		if pid, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WNOHANG, nil); err == nil && pid == 0 {
			return errRuns
		}
		defer output.Close() //nolint:errcheck // it was only read
		if status.ExitStatus() == 0 {
			return nil // another holder was faster
		}
		text, err := io.ReadAll(io.NewSectionReader(output, 0, 1<<20))
		return errors.Join(fmt.Errorf("the holder has ended: %s", text), err)
	}, nil
}

// hold is the main function of the holder: it serves until no test process is connected for a while.
func hold() error {
	const linger = 5 * time.Second // go test may be about to start the next package
	// A Ctrl-C ends the tests, and then the holder ends.
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	dir, err := sharedDir()
	if err != nil {
		return err
	}
	lock, err := osfile.Lock(dir, os.O_RDONLY, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, osfile.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // at last
	locked, err := lock.Stat()
	if err != nil {
		return fmt.Errorf("inspect the lock: %w", err)
	}
	if there, err := os.Stat(dir); err != nil || !os.SameFile(locked, there) {
		return nil // its holder has removed it meanwhile
	}
	if err := removeContents(dir); err != nil { // of a killed holder
		return err
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "socket")) //nolint:noctx // no look-up
	if err != nil {
		return fmt.Errorf("listen for tests: %w", err)
	}
	defer func() { _ = removeContents(dir); _ = os.Remove(dir) }()
	server := &sharedServer{dir: dir, ended: cancel}
	defer func() { server.stop() }()
	came, left := make(chan net.Conn), make(chan struct{})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			came <- conn
		}
	}()
	for users := 0; ; {
		var unused <-chan time.Time
		if users == 0 {
			unused = time.After(linger)
		}
		select {
		case conn := <-came:
			users++
			go func() { server.serve(ctx, conn); left <- struct{}{} }()
		case <-left:
			users--
		case <-unused:
			return listener.Close()
		case <-ctx.Done():
			return listener.Close()
		}
	}
}

// removeContents deletes what is in the shared directory. Servers of killed tests and holders may still write there
// until they end by themselves.
func removeContents(dir string) (err error) {
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(pollInterval) {
		var entries []os.DirEntry
		if entries, err = os.ReadDir(dir); err == nil && len(entries) == 0 {
			return nil
		}
		for _, entry := range entries {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, entry.Name())))
		}
	}
	return err
}

// sharedServer is the server of the holder. The first test that needs it starts it.
type sharedServer struct {
	dir   string
	ended func() // called when the server has ended by itself
	once  sync.Once
	pg    *pgserver.Server
	err   error
}

// serve answers each line of a test process with the URL of the server, until the process ends.
func (s *sharedServer) serve(ctx context.Context, conn net.Conn) {
	_, _ = io.WriteString(conn, welcome) // a process that has ended is noticed by reading
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		s.once.Do(func() {
			s.pg, s.err = pgserver.Start(ctx, pgserver.Config{
				DataDir: filepath.Join(s.dir, "shared"), StopTimeout: 5 * time.Second,
				Settings: map[string]string{ // the data need not survive
					"fsync": "off", "full_page_writes": "off", "max_connections": "800", "shared_buffers": "64MB",
					"autovacuum": "off", // a template with a connected worker cannot be copied
				},
			})
			if s.err == nil {
				go func() { <-s.pg.Done(); s.ended() }()
			}
		})
		if s.err != nil {
			_, _ = fmt.Fprintf(conn, "%q\n", s.err.Error())
		} else {
			_, _ = fmt.Fprintln(conn, s.pg.URL())
		}
	}
	_ = conn.Close()
}

func (s *sharedServer) stop() {
	s.once.Do(func() {}) // waits for a start
	if s.pg != nil {
		_ = s.pg.Stop(context.Background()) // its data is deleted
	}
}

// askURL returns the URL of the shared server.
func askURL(holder net.Conn) (string, error) {
	if _, err := io.WriteString(holder, "url\n"); err != nil {
		return "", fmt.Errorf("ask for the server: %w", err)
	}
	answer, err := bufio.NewReader(holder).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("the holder of the server has ended: %w", err)
	}
	if answer = strings.TrimSpace(answer); strings.HasPrefix(answer, `"`) {
		return "", fmt.Errorf("start the shared server: %s", answer)
	}
	return databaseURL(answer, "postgres")
}

// DataDir makes a directory for the data of a server, with a path that is short enough for a socket. When all test
// processes have ended, what is left of it is deleted.
func DataDir() (string, error) {
	dir, err := sharedMember()
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
