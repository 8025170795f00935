package testdb

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"novelgate/internal/osfile"
	"novelgate/internal/pgserver"
)

const (
	holderVariable = "NOVELGATE_TESTDB_HOLDER" // set for the holder, the process that runs the shared server
	startTimeout   = 2 * time.Minute           // a first start may have to download PostgreSQL
	linger         = 5 * time.Second           // from the end of the last test process to that of the server
	pollInterval   = 20 * time.Millisecond
)

// control is the directory of the files that test processes and the holder share.
type control string

func controlDir() (control, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("novelgate-testdb-%d", os.Geteuid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make control directory: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("inspect control directory: %w", err)
	}
	// Its parent may be writable for all users.
	if stat, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || !ok || int(stat.Uid) != os.Geteuid() {
		return "", fmt.Errorf("%s is not a directory of this user: remove it", dir)
	}
	return control(dir), nil
}

func (c control) file(name string) string { return filepath.Join(string(c), name) }

// lock opens and locks a file, waiting unless how contains LOCK_NB. The lock ends when the file is closed or the
// process ends.
func (c control) lock(name string, how int) (*os.File, error) {
	return osfile.Lock(c.file(name), os.O_RDWR|os.O_CREATE, how)
}

// join returns the URL of the shared server, after starting a holder if there is none. The server lives at least until
// useLock is closed.
func join() (useLock *os.File, url string, err error) {
	c, err := controlDir()
	if err != nil {
		return nil, "", err
	}
	start, err := c.lock("start", syscall.LOCK_EX)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = start.Close() }()
	// This waits for a holder that is shutting down.
	if useLock, err = c.lock("users", syscall.LOCK_SH); err != nil {
		return nil, "", err
	}
	if url, err = c.server(); err != nil {
		return nil, "", errors.Join(err, useLock.Close())
	}
	return useLock, url, nil
}

// server waits until the holder's server answers, and returns its URL. It starts a holder if there is none.
func (c control) server() (string, error) {
	var ended func() bool // whether the holder that this process has started has ended; nil: it has started none
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); time.Sleep(pollInterval) {
		held, err := c.isHeld()
		if err != nil {
			return "", err
		}
		if held {
			if url, err := os.ReadFile(c.file("url")); err == nil && execute(string(url), `SELECT 1`) == nil {
				return string(url), nil
			}
			continue
		}
		if ended == nil {
			if ended, err = c.startHolder(); err != nil {
				return "", err
			}
		}
		if ended() {
			output, err := os.ReadFile(c.file("log"))
			return "", errors.Join(fmt.Errorf("the test server does not start: %s", output), err)
		}
	}
	return "", fmt.Errorf("the test server does not answer within %v", startTimeout)
}

// isHeld reports whether a holder runs.
func (c control) isHeld() (bool, error) {
	probe, err := c.lock("holder", syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, osfile.ErrLocked) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, probe.Close()
}

// startHolder starts this test binary once more, as the holder.
func (c control) startHolder() (ended func() bool, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find test binary: %w", err)
	}
	// A killed holder leaves its URL, and its server may still answer for a moment.
	if err := os.Remove(c.file("url")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the URL of an earlier server: %w", err)
	}
	log, err := os.OpenFile(c.file("log"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log of the holder: %w", err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(self) //nolint:gosec,noctx // it outlives this process
	cmd.Dir = string(c)
	cmd.Env = append(os.Environ(), holderVariable+"=1")
	cmd.Stdout, cmd.Stderr = log, log // not those of this process: go test waits until they are closed
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start holder: %w", err)
	}
	return func() bool {
		pid, err := syscall.Wait4(cmd.Process.Pid, nil, syscall.WNOHANG, nil)
		return err == nil && pid == cmd.Process.Pid
	}, nil
}

// hold is the main function of the holder. It returns the exit code.
func hold() int {
	// A Ctrl-C ends the tests, and then the holder ends.
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	c, err := controlDir()
	if err == nil {
		err = c.hold(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// hold starts the server, serves it, and deletes its data at the end.
func (c control) hold(ctx context.Context) error {
	holder, err := c.lock("holder", syscall.LOCK_EX)
	if err != nil {
		return err
	}
	defer func() { _ = holder.Close() }()
	data, err := c.makeData()
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(data) }()
	server, err := pgserver.Start(ctx, pgserver.Config{
		DataDir: data, StopTimeout: 5 * time.Second, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Settings: map[string]string{ // the data need not survive
			"fsync": "off", "full_page_writes": "off", "max_connections": "800", "shared_buffers": "64MB",
			"autovacuum": "off", // a template with a connected worker cannot be copied
		},
	})
	if err != nil {
		return err
	}
	useLock, err := c.serve(ctx, server)
	err = errors.Join(err, server.Stop(context.WithoutCancel(ctx)), os.Remove(c.file("url")), os.RemoveAll(data),
		holder.Close())
	if useLock != nil {
		_ = useLock.Close() // after holder, so that a process that waits for users finds no holder
	}
	return err
}

// serve publishes the URL of the server, and waits until no test process uses it. It returns the lock that new
// processes wait for, or nil if the holder shall end earlier.
func (c control) serve(ctx context.Context, server *pgserver.Server) (useLock *os.File, err error) {
	url, err := databaseURL(server.URL(), maintenanceDatabase)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(c.file("url"), []byte(url), 0o600); err != nil {
		return nil, fmt.Errorf("publish the URL: %w", err)
	}
	unused := make(chan *os.File, 1)
	go func() { unused <- c.awaitUnused() }()
	select {
	case <-ctx.Done():
		return nil, nil
	case <-server.Done():
		return nil, errors.New("the server has ended by itself")
	case useLock := <-unused:
		return useLock, nil
	}
}

// awaitUnused returns when no test process has run for a while. It returns the lock that new processes wait for.
func (c control) awaitUnused() *os.File {
	for {
		if useLock, err := c.lock("users", syscall.LOCK_EX); err == nil {
			_ = useLock.Close()
		}
		time.Sleep(linger)
		if useLock, err := c.lock("users", syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			return useLock
		}
	}
}

// makeData deletes the data of killed holders and makes a directory for the data. A digest of the control directory in
// its name keeps holders with different control directories apart.
func (c control) makeData() (string, error) {
	digest := fnv.New64a()
	_, _ = digest.Write([]byte(c)) // never fails
	prefix := fmt.Sprintf("novelgate-testdb-data-%d-%x-", os.Geteuid(), digest.Sum64())
	for _, place := range []string{memoryDir, os.TempDir()} {
		leftovers, err := filepath.Glob(filepath.Join(place, prefix+"*"))
		if err != nil {
			return "", fmt.Errorf("look for leftovers: %w", err)
		}
		for _, leftover := range leftovers {
			if err := removeData(leftover); err != nil {
				return "", fmt.Errorf("delete leftovers: %w", err)
			}
		}
	}
	return makeServerDir(prefix)
}

// removeData deletes the data of a server that may still write there until it ends by itself.
func removeData(dir string) (err error) {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(pollInterval) {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
	}
	return err
}

const (
	memoryDir  = "/dev/shm"
	memoryRoom = 1 << 30 // bytes that must be free there
)

// DataPlace returns the directory for the data of servers: in memory if it has room.
func DataPlace() string {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(memoryDir, &stat); err != nil ||
		stat.Bavail*uint64(stat.Bsize) < memoryRoom { //nolint:gosec // a block size is positive
		return os.TempDir()
	}
	return memoryDir
}

// makeServerDir makes a directory for the data of a server, with a path that is short enough for a socket. For root,
// PostgreSQL runs as another user, who must pass through the directory; its own directories are private.
func makeServerDir(prefix string) (string, error) {
	dir, err := os.MkdirTemp(DataPlace(), prefix)
	if err == nil {
		err = os.Chmod(dir, 0o711) //nolint:gosec // see above
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
	_, url := newServer(t, pgserver.Start, settings)
	return url
}

func newServer(
	t testing.TB, start func(context.Context, pgserver.Config) (*pgserver.Server, error), settings map[string]string,
) (server *pgserver.Server, url string) {
	t.Helper()
	dir, err := makeServerDir("novelgate-server-")
	if err != nil {
		t.Fatalf("testdb: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	all := map[string]string{"fsync": "off", "shared_buffers": "16MB"}
	maps.Copy(all, settings)
	server, err = start(t.Context(), pgserver.Config{
		DataDir: dir, Settings: all, StopTimeout: Patience, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatalf("testdb: start a server: %v", err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Errorf("testdb: stop the server: %v", err)
		}
	})
	if url, err = withConnectTimeout(server.URL()); err != nil {
		t.Fatalf("testdb: %v", err)
	}
	return server, url
}
