package database_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

func open(t testing.TB) *database.Pools {
	t.Helper()
	pools, err := database.Open(t.Context(), testdb.New(t), 2)
	if err != nil {
		t.Fatal(err)
	}
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
		{pools.Append, "lock_timeout", "20ms"},
		{pools.Append, "synchronous_commit", "on"},
		{pools.Append, "application_name", "novelgate-append"},
		{pools.Limits, "synchronous_commit", "off"},
		{pools.Limits, "application_name", "novelgate-limits"},
		{pools.Access, "enable_seqscan", "off"},
		{pools.Access, "application_name", "novelgate-access"},
		{pools.Queries, "default_transaction_read_only", "on"},
		{pools.Queries, "application_name", "novelgate-queries"},
		{pools.Read, "default_transaction_read_only", "on"},
		{pools.Read, "plan_cache_mode", "force_generic_plan"},
		{pools.Read, "application_name", "novelgate-read"},
		{pools.History, "enable_seqscan", "off"},
		{pools.History, "synchronous_commit", "on"},
		{pools.History, "application_name", "novelgate-history"},
		{pools.General, "synchronous_commit", "on"},
		{pools.General, "plan_cache_mode", "auto"},
		{pools.General, "application_name", "novelgate"},
		{pools.Ledger, "synchronous_commit", "on"}, // a signature is on disk before anybody sees it
		{pools.Ledger, "enable_seqscan", "off"},
		{pools.Ledger, "application_name", "novelgate-ledger"},
	} {
		var got string
		if err := c.pool.QueryRow(t.Context(), `SELECT current_setting($1)`, c.setting).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.setting, got, c.want)
		}
	}
	if got := pools.Append.Config().MaxConns; got < 2 {
		t.Errorf("%d connections for 2 lanes", got)
	}
	if len(pools.Named()) != 8 {
		t.Errorf("named pools: %v", pools.Named())
	}
}

func TestOpenRefusesABrokenURL(t *testing.T) {
	t.Parallel()
	if pools, err := database.Open(t.Context(), "postgres://%zz", 2); err == nil {
		pools.Close()
		t.Error("it was opened")
	}
}
