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
	both := testdb.Must(url.Parse(old))(t)
	first, second := both.Query(), testdb.Must(url.Parse(standby.URL))(t).Query()
	query := both.Query()
	query.Set("host", first.Get("host")+","+second.Get("host"))
	query.Set("port", first.Get("port")+","+second.Get("port"))
	query.Set("target_session_attrs", "read-write")
	both.RawQuery = query.Encode()
	service := testdb.Must(database.Open(t.Context(), both.String()))(t)
	t.Cleanup(service.Close)
	for name, pool := range map[string]*pgxpool.Pool{
		"general":    openGeneral(t, both.String()),
		"history":    testdb.Must(database.OpenHistory(t.Context(), both.String()))(t),
		"of service": service.Append,
	} {
		t.Cleanup(pool.Close)
		if got := testdb.Value[string](t, pool, `SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)`); got != "00000002" {
			t.Errorf("%s: connected to timeline %s", name, got)
		}
	}
}
