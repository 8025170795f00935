package database_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

func openGeneral(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := database.OpenGeneral(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// TestServersAreAskedToNoticeSilence: what the URL says about it holds. Sessions on a unix socket have no such settings to look at.
func TestServersAreAskedToNoticeSilence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ parameters, idle string }{
		"by itself":  {"", "10s"},
		"by the URL": {"&tcp_keepalives_idle=77", "77"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := openGeneral(t, newRelay(t).url+c.parameters)
			if _, err := pool.Exec(t.Context(), `SELECT 1`); err != nil {
				t.Fatal(err)
			}
			settings := pool.Config().ConnConfig.RuntimeParams
			if got := settings["tcp_keepalives_idle"]; got != c.idle {
				t.Errorf("tcp_keepalives_idle is %q, want %q", got, c.idle)
			}
			if settings["tcp_keepalives_interval"] == "" || settings["tcp_keepalives_count"] == "" {
				t.Errorf("settings of the session: %v", settings)
			}
		})
	}
}

// TestOnlyTheServiceIsCutOff: its transactions must not stay open when it is gone. Whoever reads a command's output may stop for a while.
func TestOnlyTheServiceIsCutOff(t *testing.T) {
	t.Parallel()
	const setting = "tcp_user_timeout"
	pools := open(t)
	for name, want := range map[string]string{"append": "20s", "general": "20s", "ledger": "20s", "history": ""} {
		if got := pools.Named()[name].Config().ConnConfig.RuntimeParams[setting]; got != want {
			t.Errorf("%s: %s is %q, want %q", name, setting, got, want)
		}
	}
	if got := openGeneral(t, testdb.New(t)).Config().ConnConfig.RuntimeParams[setting]; got != "" {
		t.Errorf("of a command: %s is %q", setting, got)
	}
}
