package database_test

import (
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

// TestOldPrimaryIsRefused: of the hosts in a URL, service and commands use the one that was promoted, although the one
// that it replaced comes first and takes writes.
func TestOldPrimaryIsRefused(t *testing.T) {
	t.Parallel()
	old, standby := testdb.NewSynchronousPair(t)
	testdb.Exec(t, testdb.Connect(t, standby.URL), `SELECT pg_promote(true, 60)`)
	both := hosts(t, old, standby.URL)
	service := testdb.Must(database.Open(t.Context(), both))(t)
	t.Cleanup(service.Close)
	for name, pool := range map[string]*pgxpool.Pool{
		"general":    openGeneral(t, both),
		"history":    testdb.Must(database.OpenHistory(t.Context(), both))(t),
		"of service": service.Append,
	} {
		t.Cleanup(pool.Close)
		if got := testdb.Value[string](t, pool, timelineSQL); got != "00000002" {
			t.Errorf("%s: connected to timeline %s", name, got)
		}
	}
}

// TestOpenConnectionsToAnOldPrimary: once one connection of a pool has gone to the promoted server, the pool hands out
// none of those that are still open to the one that it replaced, which keeps running.
func TestOpenConnectionsToAnOldPrimary(t *testing.T) {
	t.Parallel()
	old, standby := testdb.NewSynchronousPair(t)
	service := testdb.Must(database.Open(t.Context(), hosts(t, standby.URL, old)))(t)
	t.Cleanup(service.Close)
	testdb.Exec(t, testdb.Connect(t, standby.URL), `SELECT pg_promote(true, 60)`)
	testdb.Exec(t, testdb.Connect(t, old), `SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity
		WHERE application_name = 'novelgate-append' LIMIT 1) AS one`)
	testdb.Eventually(t, "all connections are to the promoted server", func() bool {
		promoted := 0
		for _, conn := range takeAll(t, service.Append) {
			var timeline string
			err := conn.QueryRow(t.Context(), timelineSQL).Scan(&timeline) // fails on the ended session
			if err == nil && timeline == "00000002" {
				promoted++
			}
			defer conn.Release()
		}
		return promoted == int(service.Append.Config().MaxConns)
	})
}

const timelineSQL = `SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)`

// hosts returns the URL of a database on the writable one of two servers, of which first is tried first.
func hosts(t *testing.T, first, second string) string {
	t.Helper()
	both := testdb.Must(url.Parse(first))(t)
	query, other := both.Query(), testdb.Must(url.Parse(second))(t).Query()
	query.Set("host", query.Get("host")+","+other.Get("host"))
	query.Set("port", query.Get("port")+","+other.Get("port"))
	query.Set("target_session_attrs", "read-write")
	both.RawQuery = query.Encode()
	return both.String()
}
