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
	pools := testdb.Must(database.Open(t.Context(), testdb.New(t), 2, database.DefaultConnections(2)))(t)
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
		{pools.Limits, "synchronous_commit", "off"},
		{pools.Limits, "jit", "off"},
		{pools.Limits, "application_name", "novelgate-limits"},
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
	if got := pools.Append.Config().MaxConns; got < 2 {
		t.Errorf("%d connections for 2 lanes", got)
	}
	if len(pools.Named()) != 6 {
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
		lanes, most int
		want        map[string]int
	}{
		{2, database.LeastConnections(2), map[string]int{
			"append": 2, "limits": 1, "access": 1, "general": 3, "read": 1, "history": 1,
		}},
		{2, 20, map[string]int{"append": 3, "limits": 2, "access": 2, "general": 4, "read": 2, "history": 1}},
		{2, 30, map[string]int{"append": 3, "limits": 3, "access": 3, "general": 7, "read": 4, "history": 4}},
		{2, 100, map[string]int{"append": 3, "limits": 3, "access": 3, "general": 14, "read": 14, "history": 4}},
		{8, database.DefaultConnections(8), map[string]int{
			"append": 9, "limits": 2, "access": 2, "general": 4, "read": 2, "history": 1,
		}},
	} {
		pools := testdb.Must(database.Open(t.Context(), url, c.lanes, c.most))(t)
		got, sum := map[string]int{}, outside
		for name, pool := range pools.Named() {
			got[name] = int(pool.Config().MaxConns)
			sum += got[name]
		}
		pools.Close()
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%d lanes, %d connections (-want +got):\n%s", c.lanes, c.most, diff)
		}
		if sum > c.most {
			t.Errorf("%d lanes: %d connections, at most %d", c.lanes, sum, c.most)
		}
	}
}

func TestOpenRefusesABrokenURL(t *testing.T) {
	t.Parallel()
	if pools, err := database.Open(t.Context(), "postgres://%zz", 2, database.DefaultConnections(2)); err == nil {
		pools.Close()
		t.Error("it was opened")
	}
}
