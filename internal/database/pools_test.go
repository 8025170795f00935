package database_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

func open(t testing.TB) *database.Pools {
	t.Helper()
	pools := testdb.Must(database.Open(t.Context(), testdb.New(t), database.DefaultConnections))(t)
	t.Cleanup(pools.Close)
	return pools
}

func TestPoolsHaveTheirSettings(t *testing.T) {
	t.Parallel()
	pools := open(t)
	for _, c := range []struct {
		pool          *pgxpool.Pool
		setting, want string
	}{
		{pools.Append, "plan_cache_mode", "force_generic_plan"},
		{pools.Append, "enable_seqscan", "off"},
		{pools.Append, "lock_timeout", "1s"},
		{pools.Append, "synchronous_commit", "on"},
		{pools.Append, "application_name", "novelgate-append"},
		{pools.Access, "enable_seqscan", "off"},
		{pools.Access, "application_name", "novelgate-access"},
		{pools.Read, "default_transaction_read_only", "on"},
		{pools.Read, "plan_cache_mode", "force_generic_plan"},
		{pools.Read, "application_name", "novelgate-read"},
		{pools.History, "enable_seqscan", "off"},
		{pools.History, "synchronous_commit", "on"},
		{pools.History, "application_name", "novelgate-history"},
		{pools.General, "synchronous_commit", "on"}, // a signature is on disk before it is published
		{pools.General, "enable_seqscan", "off"},
		{pools.General, "plan_cache_mode", "auto"},
		{pools.General, "application_name", "novelgate"},
	} {
		got := testdb.Value[string](t, c.pool, `SELECT current_setting($1)`, c.setting)
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.setting, got, c.want)
		}
	}
	if len(pools.Named()) != 5 {
		t.Errorf("named pools: %v", pools.Named())
	}
}

// TestPoolsShareTheConnections: the pools and all other connections respect every limit, and commands get their
// connections first.
func TestPoolsShareTheConnections(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	const outside = 6 // one reads the log, two listen, three are of a rebuild
	for _, c := range []struct {
		most int
		want map[string]int
	}{
		{database.LeastConnections, map[string]int{"append": 2, "access": 1, "general": 3, "read": 1, "history": 1}},
		{database.DefaultConnections, map[string]int{"append": 2, "access": 3, "general": 5, "read": 2, "history": 2}},
		{30, map[string]int{"append": 2, "access": 3, "general": 9, "read": 6, "history": 4}},
		{100, map[string]int{"append": 2, "access": 3, "general": 14, "read": 14, "history": 4}},
	} {
		pools := testdb.Must(database.Open(t.Context(), url, c.most))(t)
		got, sum := map[string]int{}, outside
		for name, pool := range pools.Named() {
			got[name] = int(pool.Config().MaxConns)
			sum += got[name]
		}
		pools.Close()
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%d connections (-want +got):\n%s", c.most, diff)
		}
		if sum > c.most {
			t.Errorf("%d connections, at most %d", sum, c.most)
		}
	}
}

func TestOpenRefusesABrokenURL(t *testing.T) {
	t.Parallel()
	if pools, err := database.Open(t.Context(), "postgres://%zz", database.DefaultConnections); err == nil {
		pools.Close()
		t.Error("it was opened")
	}
}
