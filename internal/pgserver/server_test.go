package pgserver_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"novelgate/internal/pgserver"
	"novelgate/internal/testdb"
)

// start starts a server, or attaches to one, and stops it at the end of the test.
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

// query returns the only row of a query, as text. It closes its connection, because a test that repeats it would
// otherwise use up the connections of the server.
func query(t *testing.T, url, sql string) []string {
	t.Helper()
	conn := testdb.Connect(t, url)
	defer func() { _ = conn.Close(context.Background()) }()
	results := testdb.Must(conn.PgConn().Exec(t.Context(), sql).ReadAll())(t)
	var row []string
	for _, value := range results[len(results)-1].Rows[0] {
		row = append(row, string(value))
	}
	return row
}

func ended(t *testing.T, server *pgserver.Server) {
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

// backend returns a connection and its process of the server.
func backend(t *testing.T, server *pgserver.Server) (conn *pgx.Conn, pid int) {
	t.Helper()
	conn = testdb.Connect(t, server.URL())
	return conn, int(conn.PgConn().PID())
}

// signal sends a signal to a process.
func signal(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}

// kept checks the table of keepOne.
func kept(t *testing.T, url string) {
	t.Helper()
	if got := query(t, url, `SELECT n FROM kept`)[0]; got != "1" {
		t.Errorf("kept %q", got)
	}
}

const keepOne = `CREATE TABLE kept AS SELECT 1 AS n; SELECT n FROM kept`

func TestStartAndStop(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(dataDir(t), "data")
	if _, err := pgserver.Find(t.Context(), dir); !errors.Is(err, pgserver.ErrNotRunning) {
		t.Errorf("Find before the start: %v", err)
	}

	server := start(t, pgserver.Config{DataDir: dir})
	if !server.Fresh() || !server.Owned() {
		t.Errorf("first start: fresh %v, owned %v", server.Fresh(), server.Owned())
	}
	got := query(t, server.URL(), `SELECT current_database(), current_setting('server_encoding'),
		(SELECT datcollate FROM pg_database WHERE datname = current_database()), current_setting('fsync'),
		current_setting('listen_addresses'), current_setting('timezone')`)
	if diff := cmp.Diff([]string{"novelgate", "UTF8", "C", "on", "", "UTC"}, got); diff != "" {
		t.Error(diff)
	}
	version := query(t, server.URL(), `SELECT current_setting('server_version_num')::int / 10000`)[0]
	if got := filepath.Base(cluster(t, dir)); got != "pg"+version {
		t.Errorf("data of version %s lies in %s", version, got)
	}
	for _, private := range []string{cluster(t, dir), filepath.Join(dir, "run")} {
		info := testdb.Must(os.Stat(private))(t)
		if info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %v", private, info.Mode())
		}
	}
	info, err := os.Stat(filepath.Join("/proc", strconv.Itoa(postmaster(t, dir))))
	if err == nil && info.Sys().(*syscall.Stat_t).Uid == 0 {
		t.Error("PostgreSQL runs as root")
	}
	if url, err := pgserver.Find(t.Context(), dir); err != nil || url != server.URL() {
		t.Errorf("Find = %q, %v", url, err)
	}

	stop(t, server)
	ended(t, server)
	if _, err := pgserver.Find(t.Context(), dir); !errors.Is(err, pgserver.ErrNotRunning) {
		t.Errorf("Find after the stop: %v", err)
	}
}

func TestDataIsKept(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	// The server trusts everyone who can reach its socket, so it closes a directory that was left open.
	sockets := filepath.Join(dir, "run")
	if err := os.Mkdir(sockets, 0o755); err != nil {
		t.Fatal(err)
	}
	first := start(t, pgserver.Config{DataDir: dir})
	if info, err := os.Stat(sockets); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory of the socket: %v, %v", info.Mode(), err)
	}
	query(t, first.URL(), keepOne)
	stop(t, first)

	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	second := start(t, pgserver.Config{DataDir: link})
	if second.Fresh() {
		t.Error("the second start made new data")
	}
	kept(t, second.URL())
}

func TestAttach(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	owner := startHelper(t, dir)
	if owned, _ := owner.ready(t); !owned {
		t.Fatal("the first process does not own its server")
	}
	attached, again := start(t, pgserver.Config{DataDir: dir}), start(t, pgserver.Config{DataDir: dir})
	if attached.Owned() || attached.Fresh() {
		t.Errorf("second process: owned %v, fresh %v", attached.Owned(), attached.Fresh())
	}
	stop(t, attached)
	if got := query(t, again.URL(), `SELECT 1`)[0]; got != "1" {
		t.Error("Stop of an attached server stopped it")
	}

	_ = owner.stdin.Close() // the owner stops its server
	ended(t, again)
	if next := start(t, pgserver.Config{DataDir: dir}); !next.Owned() {
		t.Error("nobody owns the server after its owner has left")
	}
}

func TestConcurrentStartsHaveOneOwner(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	servers := make([]*pgserver.Server, 4)
	var starts sync.WaitGroup
	for i := range servers {
		starts.Go(func() {
			server, err := pgserver.Start(t.Context(), pgserver.Config{DataDir: dir})
			if err != nil {
				t.Error(err)
				return
			}
			servers[i] = server
		})
	}
	starts.Wait()
	owners := 0
	for _, server := range servers {
		if server == nil {
			continue
		}
		t.Cleanup(func() { _ = server.Stop(context.Background()) })
		if server.Owned() {
			owners++
		}
	}
	if owners != 1 {
		t.Errorf("%d owners", owners)
	}
}

// TestSettings: the server is sized for the machine, unless settings say otherwise.
func TestSettings(t *testing.T) {
	t.Parallel()
	const read = `SELECT pg_size_bytes(current_setting('shared_buffers')) BETWEEN 128 * 1024 * 1024 AND 1024 * 1024 * 1024,
		pg_size_bytes(current_setting('max_wal_size')) BETWEEN 1024::bigint * 1024 * 1024 AND 8192::bigint * 1024 * 1024,
		current_setting('wal_compression') = CASE WHEN s.enumvals @> '{lz4}' THEN 'lz4' ELSE 'off' END,
		current_setting('fsync'), current_setting('max_connections'), current_setting('client_encoding')
	FROM pg_settings s WHERE s.name = 'wal_compression'`
	for _, test := range []struct {
		settings map[string]string
		want     []string
	}{
		{nil, []string{"t", "t", "t", "on", "100", "UTF8"}},
		{
			map[string]string{
				"fsync": "off", "max_connections": "17", "max_wal_size": "512MB", "wal_compression": "pglz",
			},
			[]string{"t", "f", "f", "off", "17", "UTF8"},
		},
	} {
		server := start(t, pgserver.Config{DataDir: dataDir(t), Settings: test.settings})
		if diff := cmp.Diff(test.want, query(t, server.URL(), read)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestLongDataDirHasAShortSocket(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(dataDir(t), strings.Repeat("long/", 30))
	server := start(t, pgserver.Config{DataDir: dir})
	if !strings.Contains(server.URL(), "host=%2Ftmp%2Fnovelgate-") {
		t.Errorf("URL = %s", server.URL())
	}
	if url, err := pgserver.Find(t.Context(), dir); err != nil || url != server.URL() {
		t.Errorf("Find = %q, %v", url, err)
	}
}

func TestFailedStartQuotesTheLog(t *testing.T) {
	t.Parallel()
	_, err := pgserver.Start(t.Context(),
		pgserver.Config{DataDir: dataDir(t), Settings: map[string]string{"no_such_setting": "1"}})
	if err == nil || !strings.Contains(err.Error(), `unrecognized configuration parameter "no_such_setting"`) {
		t.Errorf("error = %v", err)
	}
}

func TestStopEscalates(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	server := start(t, pgserver.Config{DataDir: dir, StopTimeout: 100 * time.Millisecond})
	query(t, server.URL(), keepOne)
	// A backend that does not react delays a fast shutdown.
	_, pid := backend(t, server)
	signal(t, pid, syscall.SIGSTOP)
	if err := server.Stop(t.Context()); err == nil || !strings.Contains(err.Error(), "did not shut down in time") {
		t.Errorf("Stop: %v", err)
	}
	ended(t, server)
	kept(t, start(t, pgserver.Config{DataDir: dir}).URL())
}

// TestStopDoesNotWaitForClients: a smart shutdown (SIGTERM) would wait for clients until the time-out.
func TestStopDoesNotWaitForClients(t *testing.T) {
	t.Parallel()
	server := start(t, pgserver.Config{DataDir: dataDir(t), StopTimeout: 5 * time.Minute})
	conn, _ := backend(t, server)
	stopped := make(chan error, 1)
	go func() { stopped <- server.Stop(context.Background()) }()
	// The server must end the session of the idle client.
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := conn.PgConn().WaitForNotification(ctx); ctx.Err() != nil || err == nil {
		_ = conn.Close(context.Background()) // lets the server end
		t.Errorf("the session of an idle client goes on: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Stop: %v", err)
	}
}

func TestCancelledStartLeavesNothingRunning(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if server, err := pgserver.Start(ctx, pgserver.Config{DataDir: dir}); err == nil {
		stop(t, server)
		t.Fatal("a start takes less than 50 ms")
	}
	if server := start(t, pgserver.Config{DataDir: dir}); !server.Fresh() {
		t.Error("the cancelled start left half a data directory")
	}
}
