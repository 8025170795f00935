package e2e_test

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"novelgate/internal/testdb"
)

// startStandby starts a hot standby that streams from a running server, asynchronously. Where PostgreSQL came without
// pg_basebackup the test is skipped.
func startStandby(t testing.TB, primary *server) *server {
	t.Helper()
	program := tool(t, primary, "pg_basebackup")
	if program == "" {
		t.Skip("this PostgreSQL has no pg_basebackup")
	}
	standby := &server{dir: dataDir(t)}
	from, err := filepath.Glob(filepath.Join(primary.dir, "pg*", "postmaster.pid"))
	if err != nil || len(from) != 1 {
		t.Fatalf("find the data of the primary: %v, %v", from, err)
	}
	cluster := filepath.Join(standby.dir, filepath.Base(filepath.Dir(from[0])))
	carryOut(t, program, "--pgdata="+cluster, "--dbname="+primary.url(), "--checkpoint=fast", "--no-sync",
		"--write-recovery-conf")
	handOver(t, cluster, from[0])
	standby.start(t)
	standby.stopAtEnd(t)
	testdb.Eventually(t, "the standby streams", func() bool {
		return value[int](t, standby.url(), `SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming'`) == 1
	})
	return standby
}

// handOver makes a directory that root has filled belong to the owner of a file.
func handOver(t testing.TB, dir, owned string) {
	t.Helper()
	info, err := os.Stat(owned)
	if err != nil {
		t.Fatalf("find the owner: %v", err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatal("files have no owners here")
	}
	err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(owner.Uid), int(owner.Gid))
	})
	if err != nil {
		t.Fatalf("hand the data over: %v", err)
	}
}

// awaitStandby waits until a standby has replayed all that its primary has written so far.
func (s *server) awaitStandby(t testing.TB, standby *server) {
	t.Helper()
	written := value[string](t, s.url(), `SELECT pg_current_wal_flush_lsn()::text`)
	testdb.Eventually(t, "the standby has replayed "+written, func() bool {
		return value[bool](t, standby.url(), `SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn`, written)
	})
}

// cut ends the replication to this standby. What the primary commits from now on is lost in a failover.
func (s *server) cut(t testing.TB) {
	t.Helper()
	execute(t, s.url(), `ALTER SYSTEM SET primary_conninfo = ''`, `SELECT pg_reload_conf()`)
	testdb.Eventually(t, "the replication is cut", func() bool {
		return value[int](t, s.url(), `SELECT count(*) FROM pg_stat_wal_receiver`) == 0
	})
}

// promote makes a standby a primary.
func (s *server) promote(t testing.TB) {
	t.Helper()
	if !value[bool](t, s.url(), `SELECT pg_promote(true, 60)`) {
		t.Fatal("the standby was not promoted")
	}
}

// primaryOf returns the URL of a database on several servers, of which it means the one that can be written.
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
