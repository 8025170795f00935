package testdb

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"novelgate/internal/pgserver"
	"novelgate/migrations"
)

// Standby is a synchronous hot standby: commits of its primary wait until it has them.
type Standby struct {
	URL string

	primary, standby *pgx.Conn
	source           string // its primary_conninfo
}

// NewSynchronousPair starts a server that belongs only to this test, with the schema, and a synchronous standby.
func NewSynchronousPair(t testing.TB) (primary string, s *Standby) {
	t.Helper()
	server := newServer(t, Must(DataDir())(t), nil)
	primary = Must(databaseURL(server.URL(), ""))(t)
	if _, err := migrations.Apply(t.Context(), primary); err != nil {
		t.Fatal(err)
	}
	dir := Must(DataDir())(t)
	CopyServer(t, server, dir)
	standby := Must(databaseURL(newServer(t, dir, nil).URL(), ""))(t)
	s = &Standby{URL: standby, primary: Connect(t, primary), standby: Connect(t, standby)}
	s.source = Value[string](t, s.standby, `SHOW primary_conninfo`)
	Exec(t, s.primary, `ALTER SYSTEM SET synchronous_standby_names = '*'`)
	Exec(t, s.primary, `SELECT pg_reload_conf()`)
	s.await(t, true)
	Exec(t, s.primary, `CHECKPOINT`) // commits wait once the checkpointer has read the setting, too
	return primary, s
}

// CopyServer copies a running server into an empty data directory. pgserver.Start there starts a hot standby.
func CopyServer(t testing.TB, primary *pgserver.Server, dir string) {
	t.Helper()
	from := Value[string](t, Connect(t, primary.URL()), `SHOW data_directory`)
	to := filepath.Join(dir, filepath.Base(from))
	owner, ok := Must(os.Stat(from))(t).Sys().(*syscall.Stat_t)
	err := os.Mkdir(to, 0o700)
	if err == nil && ok {
		err = os.Chown(to, int(owner.Uid), int(owner.Gid))
	}
	if err != nil {
		t.Fatalf("testdb: make a directory for the copy: %v", err)
	}
	command := primary.Command(t.Context(), "pg_basebackup", "--pgdata="+to, "--checkpoint=fast", "--no-sync",
		"--write-recovery-conf", "--dbname="+primary.URL())
	if output, err := command.CombinedOutput(); errors.Is(err, fs.ErrNotExist) {
		t.Skip("this PostgreSQL has no pg_basebackup: set PG_BINDIR to a whole installation")
	} else if err != nil {
		t.Fatalf("testdb: copy the primary: %v\n%s", err, output)
	}
}

// Cut ends the replication. Commits of the primary wait from now on.
func (s *Standby) Cut(t testing.TB) { t.Helper(); s.follow(t, ""); s.await(t, false) }

// Return resumes the replication, and with it all commits that wait.
func (s *Standby) Return(t testing.TB) { t.Helper(); s.follow(t, s.source); s.await(t, true) }

func (s *Standby) follow(t testing.TB, source string) {
	t.Helper()
	var set string
	if err := s.standby.QueryRow(context.Background(), `SELECT format('ALTER SYSTEM SET primary_conninfo = %L', $1::text)`,
		source).Scan(&set); err != nil {
		t.Fatalf("quote the address of the primary: %v", err)
	}
	Exec(t, s.standby, set)
	Exec(t, s.standby, `SELECT pg_reload_conf()`)
}

// await waits until the primary has a synchronous standby, or none.
func (s *Standby) await(t testing.TB, there bool) {
	t.Helper()
	Eventually(t, "the standby follows the primary, or no longer", func() bool {
		return there == Value[bool](t, s.primary, `SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')`)
	})
}

// Waiting returns the number of the primary's connections whose transaction waits for the standby.
func (s *Standby) Waiting(t testing.TB) int {
	t.Helper()
	return Value[int](t, s.primary, `SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
}

// Unreplicated runs a transaction that commits while the standby is cut, and cancels its wait, as a time-out of a
// client does. The primary then shows what the transaction wrote, and a failover would lose it.
func (s *Standby) Unreplicated(t testing.TB, transaction func(conn *pgx.Conn) error) {
	t.Helper()
	conn, err := pgx.ConnectConfig(context.Background(), s.primary.Config())
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	ended := make(chan error)
	go func() { ended <- transaction(conn) }()
	pid := conn.PgConn().PID()
	Eventually(t, "the commit waits for the standby", func() bool {
		return Value[bool](t, s.primary, `SELECT wait_event IS NOT DISTINCT FROM 'SyncRep' FROM pg_stat_activity WHERE pid = $1`, pid)
	})
	Exec(t, s.primary, `SELECT pg_cancel_backend($1)`, pid)
	if err := <-ended; err != nil {
		t.Fatalf("a transaction whose wait for the standby is cancelled: %v", err)
	}
	_ = conn.Close(context.Background())
}
