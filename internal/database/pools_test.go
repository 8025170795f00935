package database_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

func open(t testing.TB) *database.Pools {
	t.Helper()
	pools := testdb.Must(database.Open(t.Context(), testdb.New(t)))(t)
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
		{pools.Access, "enable_seqscan", "off"},
		{pools.Read, "default_transaction_read_only", "on"},
		{pools.Read, "plan_cache_mode", "force_generic_plan"},
		{pools.General, "synchronous_commit", "on"}, // a signature is on disk before it is published
		{pools.General, "enable_seqscan", "off"},
		{pools.General, "plan_cache_mode", "auto"},
	} {
		got := testdb.Value[string](t, c.pool, `SELECT current_setting($1)`, c.setting)
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.setting, got, c.want)
		}
	}
}

func TestOpenRefusesABrokenURL(t *testing.T) {
	t.Parallel()
	if pools, err := database.Open(t.Context(), "postgres://%zz"); err == nil {
		pools.Close()
		t.Error("it was opened")
	}
}
