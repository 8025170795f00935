package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
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
	"novelgate/migrations"
)

// server is a PostgreSQL of the test, on disk, with fsync on.
type server struct {
	dir      string
	settings map[string]string // on its command line
	ours     *pgserver.Server
}

// template is the directory of a stopped server with a migrated database, made once, because initdb and migrations are
// slow.
var template = sync.OnceValue(func() (err error) {
	if templateDir, err = testdb.DataDir(); err != nil {
		return err
	}
	ctx := context.Background()
	server, err := pgserver.Start(ctx, pgserver.Config{
		DataDir: templateDir, StopTimeout: patience, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	_, err = migrations.Apply(ctx, server.URL())
	return errors.Join(err, server.Stop(ctx))
})

// templateDir is empty until a test needs the template. TestMain deletes it.
var templateDir string

// startServer starts a copy of template with settings. All copies have the same system identifier.
func startServer(t testing.TB, settings map[string]string) *server {
	t.Helper()
	testdb.SkipShort(t)
	if err := template(); err != nil {
		t.Fatalf("make a server to copy: %v", err)
	}
	return copyServer(t, &server{dir: templateDir, settings: settings})
}

// copyServer starts a copy of a stopped server, with its settings.
func copyServer(t testing.TB, original *server) *server {
	t.Helper()
	s := &server{dir: dataDir(t), settings: original.settings}
	carryOut(t, "cp", "-a", original.cluster(t), s.dir)
	s.startUntilEnd(t)
	return s
}

// cluster returns the directory of PostgreSQL.
func (s *server) cluster(t testing.TB) string {
	t.Helper()
	found := testdb.Must(filepath.Glob(filepath.Join(s.dir, "pg*", "PG_VERSION")))(t)
	if len(found) != 1 {
		t.Fatalf("clusters: %v", found)
	}
	return filepath.Dir(found[0])
}

// startUntilEnd starts the server. When the test ends it stops the server, and searches its log for secrets.
func (s *server) startUntilEnd(t testing.TB) {
	t.Helper()
	s.start(t)
	t.Cleanup(func() {
		if err := s.ours.Stop(context.Background()); err != nil {
			t.Errorf("stop PostgreSQL: %v", err)
		}
		wantPostgresLogClean(t, s.dir)
	})
}

// wantPostgresLogClean searches the log of PostgreSQL for secrets.
func wantPostgresLogClean(t testing.TB, dir string) {
	t.Helper()
	logs := testdb.Must(filepath.Glob(filepath.Join(dir, "pg*", "log", "*.log")))(t)
	if len(logs) == 0 {
		t.Errorf("PostgreSQL in %s has no log", dir)
	}
	for _, log := range logs {
		wantNoSecret(t, log, testdb.Must(os.ReadFile(log))(t))
	}
}

// dataDir returns a directory with a path short enough for a socket. It is deleted after the test, once the server of a
// killed service has ended.
func dataDir(t testing.TB) string {
	t.Helper()
	testdb.SkipShort(t)
	dir := testdb.Must(testdb.DataDir())(t)
	t.Cleanup(func() {
		testdb.Eventually(t, "no PostgreSQL writes to the data directory", func() bool {
			pid, _ := livingPostmaster(dir)
			return pid == 0
		})
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove data directory: %v", err)
		}
	})
	return dir
}

func (s *server) start(t testing.TB) {
	t.Helper()
	s.ours = testdb.Must(pgserver.Start(t.Context(), pgserver.Config{
		DataDir: s.dir, Settings: s.settings, StopTimeout: patience, Logger: slog.New(slog.DiscardHandler),
	}))(t)
}

func (s *server) url() string { return s.ours.URL() }

// crash stops the server like pg_ctl -m immediate: without a checkpoint, so that the next start recovers.
func (s *server) crash(t testing.TB) {
	t.Helper()
	kill(t, postmaster(t, s.dir), syscall.SIGQUIT)
	<-s.ours.Done()
	if err := s.ours.Stop(context.Background()); err != nil {
		t.Fatalf("free the data directory: %v", err)
	}
}

// freeze suspends all processes of the server, so that it accepts connections (through the kernel) and does not answer.
// thaw resumes them.
func (s *server) freeze(t testing.TB) (thaw func()) {
	t.Helper()
	first := postmaster(t, s.dir)
	resume := suspend(t, first)
	testdb.Eventually(t, "the postmaster starts no more processes", func() bool { return processState(first) == "T" })
	// Of these, pg_stat_activity lacks those that authenticate a client at present.
	others := suspend(t, children(t, first)...)
	return func() { resume(); others() }
}

// processState returns the state of a process, as in proc(5); "" for a process that has ended.
func processState(pid int) string {
	state, _ := stat(pid)
	return state
}

func kill(t testing.TB, pid int, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, signal); pid == 0 || err != nil {
		t.Fatalf("send %v to %d: %v", signal, pid, err)
	}
}

// stat returns the state of a process and its parent.
func stat(pid int) (state string, parent int) {
	content, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, fields, _ := strings.Cut(string(content), ") ") // after the name of the program
	_, _ = fmt.Sscan(fields, &state, &parent)
	return state, parent
}

// children returns the processes that a process has started.
func children(t testing.TB, of int) (pids []int) {
	t.Helper()
	for _, directory := range testdb.Must(filepath.Glob("/proc/[0-9]*"))(t) {
		pid, err := strconv.Atoi(filepath.Base(directory))
		if _, parent := stat(pid); err == nil && parent == of {
			pids = append(pids, pid)
		}
	}
	if len(pids) == 0 {
		t.Fatalf("process %d has no children", of)
	}
	return pids
}

// freezeWriters suspends the processes of the committers' connections, at least one in a transaction. All others
// continue, and new ones start.
func (s *server) freezeWriters(t testing.TB) (thaw func()) {
	t.Helper()
	const writers = `application_name = 'novelgate-append'`
	const midway = `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE ` + writers + ` AND backend_xid IS NOT NULL)`
	testdb.Eventually(t, "a writer is stopped in the middle of its transaction", func() (found bool) {
		connection := connect(t, s.url())
		defer func() { _ = connection.Close(context.Background()) }()
		thaw = suspend(t, backends(t, connection, writers)...)
		// A writer may have stopped with a lock for which this query waits.
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		err := connection.QueryRow(ctx, midway).Scan(&found)
		if !found {
			thaw()
		}
		if err != nil && ctx.Err() == nil {
			t.Fatalf("look for a transaction: %v", err)
		}
		return found
	})
	return thaw
}

// backends lists processes of the server, without the connection's own.
func backends(t testing.TB, connection *pgx.Conn, condition string) []int {
	t.Helper()
	return testdb.Values[int](t, connection,
		`SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND `+condition)
}

// suspend suspends processes until resume is called or the test ends.
func suspend(t testing.TB, pids ...int) (resume func()) {
	t.Helper()
	var stopped []int
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err == nil { // otherwise it has ended
			stopped = append(stopped, pid)
		}
	}
	resume = func() {
		for _, pid := range stopped {
			_ = syscall.Kill(pid, syscall.SIGCONT) // it may have ended
		}
		stopped = nil
	}
	t.Cleanup(resume)
	return resume
}

// postmaster returns the process of the server that runs on a data directory.
func postmaster(t testing.TB, dir string) int {
	t.Helper()
	pid, _ := livingPostmaster(dir)
	if pid == 0 {
		t.Fatalf("no PostgreSQL runs on %s", dir)
	}
	return pid
}

// livingPostmaster returns the process of the server on a data directory, 0 without one, and whether the server is
// ready.
func livingPostmaster(dir string) (pid int, ready bool) {
	files, err := filepath.Glob(filepath.Join(dir, "pg*", "postmaster.pid"))
	if err != nil || len(files) == 0 {
		return 0, false
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		return 0, false
	}
	first, rest, _ := strings.Cut(string(content), "\n")
	if pid, err = strconv.Atoi(first); err != nil {
		return 0, false
	}
	// The server works in its directory. After a kill, another process may have got its number.
	where, err := os.Stat(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil {
		return 0, false
	}
	if cluster, err := os.Stat(filepath.Dir(files[0])); err != nil || !os.SameFile(where, cluster) {
		return 0, false
	}
	return pid, strings.Contains(rest, "ready")
}

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	return testdb.Must(pgx.Connect(context.Background(), url))(t)
}

// execute runs statements on the database, as its superuser.
func execute(t testing.TB, url string, statements ...string) {
	t.Helper()
	connection := connect(t, url)
	defer func() { _ = connection.Close(context.Background()) }()
	for _, statement := range statements {
		testdb.Exec(t, connection, statement)
	}
}

// compact rewrites all tables, and their statistics, without what was deleted. A VACUUM FULL without tables would also
// lock the catalogs that the databases of a server share, which other tests need.
func compact(t testing.TB, url string) {
	t.Helper()
	tables := value[string](t, url, `SELECT string_agg(format('%I.%I', schemaname, tablename), ', ') FROM pg_tables
		WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`)
	execute(t, url, `VACUUM (FULL, ANALYZE) `+tables)
}

// value returns the single value of a query; the zero value without a row.
func value[T any](t testing.TB, url, query string, args ...any) T {
	t.Helper()
	connection := connect(t, url)
	defer func() { _ = connection.Close(context.Background()) }()
	return testdb.Value[T](t, connection, query, args...)
}

// startStandby starts an asynchronous hot standby of a running server.
func startStandby(t testing.TB, primary *server) *server {
	t.Helper()
	standby := &server{dir: dataDir(t)}
	testdb.CopyServer(t, primary.ours, standby.dir)
	standby.startUntilEnd(t)
	testdb.Eventually(t, "the standby streams", func() bool {
		return value[int](t, standby.url(), `SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming'`) == 1
	})
	return standby
}

// awaitStandby waits until a standby has replayed everything that its primary has written.
func (s *server) awaitStandby(t testing.TB, standby *server) {
	t.Helper()
	written := value[string](t, s.url(), `SELECT pg_current_wal_flush_lsn()::text`)
	testdb.Eventually(t, "the standby has replayed "+written, func() bool {
		return value[bool](t, standby.url(), `SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn`, written)
	})
}

// cut ends the replication to a standby. Later commits of the primary are lost in a failover.
func (s *server) cut(t testing.TB) {
	t.Helper()
	execute(t, s.url(), `ALTER SYSTEM SET primary_conninfo = ''`, `SELECT pg_reload_conf()`)
	// What arrived may end in the middle of a record. The standby has applied the rest when it waits to try again.
	testdb.Eventually(t, "the replication is cut, and what arrived is applied", func() bool {
		return value[bool](t, s.url(), `SELECT NOT EXISTS (SELECT FROM pg_stat_wal_receiver)
			AND EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'RecoveryRetrieveRetryInterval')`)
	})
}

// promote makes a standby a primary.
func (s *server) promote(t testing.TB) {
	t.Helper()
	if !value[bool](t, s.url(), `SELECT pg_promote(true, 60)`) {
		t.Fatal("the standby was not promoted")
	}
}

// primaryOf returns the URL of a database on several servers that connects to the writable one.
func primaryOf(t testing.TB, servers ...*server) string {
	t.Helper()
	hosts, ports := make([]string, len(servers)), make([]string, len(servers))
	var u *url.URL
	for i, s := range servers {
		var err error
		if u, err = url.Parse(s.url()); err != nil {
			t.Fatalf("parse database URL: %v", err)
		}
		hosts[i], ports[i] = u.Query().Get("host"), u.Query().Get("port")
	}
	u.RawQuery = fmt.Sprintf("host=%s&port=%s&target_session_attrs=read-write", strings.Join(hosts, ","),
		strings.Join(ports, ","))
	return u.String()
}

func carryOut(t testing.TB, program string, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, args...)
	if said, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(program), err, said)
	}
}
