package pgserver_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"novelgate/internal/pgserver"
	"novelgate/internal/testdb"
)

// TestLife: a server from its first start to the next one. Its directory is below a link, and has a space.
func TestLife(t *testing.T) {
	t.Parallel()
	place := emptyDir(t)
	if err := os.Mkdir(filepath.Join(place, "a place+"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a place+", filepath.Join(place, "link")); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(place, "link", "data")
	if _, err := pgserver.Find(t.Context(), dir); !errors.Is(err, pgserver.ErrNotRunning) {
		t.Errorf("Find before the start: %v", err)
	}
	server := start(t, pgserver.Config{DataDir: dir})
	// The server trusts everyone who can reach its socket.
	if info := testdb.Must(os.Stat(cluster(t, dir)))(t); info.Mode().Perm() != 0o700 {
		t.Errorf("the directory with the socket has mode %v", info.Mode())
	}
	if of, err := os.Stat("/proc/" + strconv.Itoa(postmaster(t, dir))); err == nil && of.Sys().(*syscall.Stat_t).Uid == 0 {
		t.Error("PostgreSQL runs as root")
	}
	if url, err := pgserver.Find(t.Context(), dir); err != nil || url != server.URL() {
		t.Errorf("Find = %q, %v", url, err)
	}
	if _, err := pgserver.Start(t.Context(), pgserver.Config{DataDir: dir}); !errors.Is(err, pgserver.ErrInUse) {
		t.Errorf("a second start: %v", err)
	}
	psql := server.Command(t.Context(), "psql", "-c", "CREATE TABLE kept AS SELECT 1 AS n", server.URL())
	if out, err := psql.CombinedOutput(); err != nil { // libpq reads the address, too
		t.Errorf("psql: %v: %s", err, out)
	}
	stop(t, server)
	awaitEnd(t, server)
	if _, err := pgserver.Find(t.Context(), dir); !errors.Is(err, pgserver.ErrNotRunning) {
		t.Errorf("Find after the stop: %v", err)
	}
	wantKept(t, start(t, pgserver.Config{DataDir: dir}).URL())
}

// TestSettings: the server is sized for the machine, unless settings say otherwise.
func TestSettings(t *testing.T) {
	t.Parallel()
	const read = `SELECT concat_ws(' ', current_setting('server_encoding'), current_setting('lc_collate', true),
		current_setting('listen_addresses'), current_setting('timezone'),
		pg_size_bytes(current_setting('shared_buffers')) BETWEEN 128 * 1024 * 1024 AND 1024 * 1024 * 1024,
		pg_size_bytes(current_setting('max_wal_size')) BETWEEN 1024::bigint * 1024 * 1024 AND 8192::bigint * 1024 * 1024,
		current_setting('wal_compression') = CASE WHEN s.enumvals @> '{lz4}' THEN 'lz4' ELSE 'off' END,
		current_setting('fsync'), current_setting('max_connections'))
	FROM pg_settings s WHERE s.name = 'wal_compression'`
	for _, test := range []struct {
		settings map[string]string
		want     string
	}{
		{nil, "t t t on 100"},
		{map[string]string{
			"fsync": "off", "max_connections": "17", "max_wal_size": "512MB", "wal_compression": "pglz",
		}, "t f f off 17"},
	} {
		server := start(t, pgserver.Config{DataDir: dataDir(t), Settings: test.settings})
		got := strings.Replace(query[string](t, server.URL(), read), "UTF8 C ", "UTF8 ", 1) // until PostgreSQL 16
		if diff := cmp.Diff("UTF8  UTC "+test.want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// TestVariablesOfOtherServers: what libpq's variables say about other servers does not reach the embedded one.
func TestVariablesOfOtherServers(t *testing.T) {
	for name, value := range map[string]string{
		"PGCHANNELBINDING": "require", "PGOPTIONS": "-c no_such_setting=1", "PGSERVICE": "none", "PGTZ": "Nowhere",
		"PGHOST": "example.invalid", "PGCONNECT_TIMEOUT": "soon", "PGTARGETSESSIONATTRS": "standby",
	} {
		t.Setenv(name, value)
	}
	dir := dataDir(t)
	wantKept(t, start(t, pgserver.Config{DataDir: dir}).URL())
	t.Setenv("PGOPTIONS", "-c no_such_setting=1")
	if _, err := pgserver.Find(t.Context(), dir); err != nil {
		t.Errorf("Find: %v", err)
	}
}

// TestRefusedConnection: a server that runs and refuses is not one that does not run.
func TestRefusedConnection(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	server := start(t, pgserver.Config{DataDir: dir, Settings: map[string]string{
		"max_connections": "1", "superuser_reserved_connections": "0", "max_wal_senders": "0", "autovacuum": "off",
	}})
	testdb.Eventually(t, "the connection of the start is closed", func() bool {
		conn, err := pgx.Connect(t.Context(), server.URL())
		if err == nil {
			t.Cleanup(func() { _ = conn.Close(context.Background()) })
		}
		return err == nil
	})
	_, err := pgserver.Find(t.Context(), dir)
	if errors.Is(err, pgserver.ErrNotRunning) || err == nil || !strings.Contains(err.Error(), "too many clients") {
		t.Errorf("error = %v", err)
	}
}

func TestFailedStartSaysWhy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg  pgserver.Config
		want string
	}{
		"before the log is open": {
			pgserver.Config{DataDir: dataDir(t), Settings: map[string]string{"no_such_setting": "1"}},
			`unrecognized configuration parameter "no_such_setting"`,
		},
		"in the log": {
			pgserver.Config{DataDir: dataDir(t), Settings: map[string]string{"hba_file": "/none"}}, `could not open configuration file "/none"`,
		},
		"too long": {pgserver.Config{DataDir: filepath.Join(emptyDir(t), strings.Repeat("long/", 30))}, "at most 84 bytes"},
	} {
		if _, err := pgserver.Start(t.Context(), c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error = %v", name, err)
		}
	}
}

func TestKilledOwner(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	owner := startHelper(t, dir)
	owner.ready(t)
	orphan := postmaster(t, dir)
	owner.kill(t)

	// At once, while the orphan is shutting down.
	wantKept(t, start(t, pgserver.Config{DataDir: dir}).URL())
	if postmaster(t, dir) == orphan {
		t.Error("the server of the killed owner is still there")
	}
}

func TestServerGoesDownWithItsOwner(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	owner := startHelper(t, dir)
	owner.ready(t)
	owner.kill(t)
	testdb.Eventually(t, "the server ends with its owner", func() bool {
		_, err := os.Stat(filepath.Join(cluster(t, dir), "postmaster.pid"))
		return errors.Is(err, os.ErrNotExist)
	})
}

// TestKilledInitdb kills a process during its first start.
func TestKilledInitdb(t *testing.T) {
	t.Parallel()
	dir := emptyDir(t)
	owner := startHelper(t, dir)
	testdb.Eventually(t, "the directory of initdb looks like data", func() bool {
		begun, _ := filepath.Glob(filepath.Join(dir, "pg*.init-*", "PG_VERSION"))
		return len(begun) > 0
	})
	owner.kill(t)
	server := start(t, pgserver.Config{DataDir: dir})
	query[int](t, server.URL(), `SELECT 1`)
}

// TestKilledServerWithABusyBackend: while a process of the dead server may write, no new server may start. The process
// id of the dead server belongs to another process then, as in a container, where ids are small.
func TestKilledServerWithABusyBackend(t *testing.T) {
	t.Parallel()
	for name, reused := range map[string]bool{"reused process id": true, "free process id": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := dataDir(t)
			first := start(t, pgserver.Config{DataDir: dir})
			conn := testdb.Must(pgx.Connect(t.Context(), first.URL()))(t)
			defer conn.Close(context.Background()) //nolint:errcheck // its server is dead
			backend := int(conn.PgConn().PID())
			signal(t, backend, syscall.SIGSTOP)
			signal(t, postmaster(t, dir), syscall.SIGKILL)
			awaitEnd(t, first)
			stop(t, first)
			if reused {
				other := first.Command(t.Context(), "../../bin/sleep", "600")
				other.Path = testdb.Must(exec.LookPath("sleep"))(t)
				other.Dir = "/"
				if err := other.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = other.Wait() })
				pidFile := filepath.Join(cluster(t, dir), "postmaster.pid")
				_, rest, _ := strings.Cut(string(testdb.Must(os.ReadFile(pidFile))(t)), "\n")
				content := strconv.Itoa(other.Process.Pid) + "\n" + rest
				if err := os.WriteFile(pidFile, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
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
			wantKept(t, second.URL())
		})
	}
}

// TestStop: a smart shutdown (SIGTERM) would wait for clients, and a backend that does not react delays a fast one.
func TestStop(t *testing.T) {
	t.Parallel()
	for name, timeout := range map[string]time.Duration{"idle client": 5 * time.Minute, "busy backend": time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := dataDir(t)
			server := start(t, pgserver.Config{DataDir: dir, StopTimeout: timeout})
			conn := testdb.Must(pgx.Connect(t.Context(), server.URL()))(t)
			defer conn.Close(context.Background()) //nolint:errcheck // its server is stopped
			forced := timeout == time.Second
			if forced {
				signal(t, int(conn.PgConn().PID()), syscall.SIGSTOP)
			}
			began := time.Now()
			if err := server.Stop(t.Context()); (err != nil) != forced {
				t.Errorf("Stop: %v", err)
			}
			if took := time.Since(began); took > 2*time.Minute {
				t.Errorf("Stop has taken %v", took)
			}
			wantKept(t, start(t, pgserver.Config{DataDir: dir}).URL())
		})
	}
}

// TestCancelledStart: it leaves nothing running and says that it was interrupted, whenever that was.
func TestCancelledStart(t *testing.T) {
	t.Parallel()
	dir := emptyDir(t)
	for _, after := range []time.Duration{0, 10 * time.Millisecond, 50 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		server, err := pgserver.Start(ctx, pgserver.Config{DataDir: dir})
		cancel()
		if err == nil {
			stop(t, server)
			t.Fatal("a start takes less than 50 ms")
		}
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, pgserver.ErrNoBinaries) {
			t.Errorf("after %v: %v", after, err)
		}
	}
	start(t, pgserver.Config{DataDir: dir})
}
