package database_test

import (
	"context"
	"testing"
	"time"

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

// takeAll takes all connections of a pool, which gives one back at a time only.
func takeAll(t *testing.T, pool *pgxpool.Pool) []*pgxpool.Conn {
	t.Helper()
	taken := make([]*pgxpool.Conn, pool.Config().MaxConns)
	for i := range taken {
		var err error
		if taken[i], err = pool.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return taken
}

// TestIdleConnectionsThatHaveGoneSilent: none of them is handed out, and nobody waits for long to learn so.
func TestIdleConnectionsThatHaveGoneSilent(t *testing.T) {
	t.Parallel()
	r := newRelay(t)
	pool := openGeneral(t, r.url)
	for _, conn := range takeAll(t, pool) {
		conn.Release()
	}
	r.silence()
	time.Sleep(1100 * time.Millisecond) // from a second of idleness on, a connection is asked whether it lives
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := pool.Exec(ctx, `SELECT 1`); err != nil {
		t.Errorf("after all connections have gone silent: %v", err)
	}
}

// TestBusyConnectionsThatHaveGoneSilent: whoever waits for an answer gives up, and what took its place in the pool makes room for a new
// connection long before the 15 seconds that pgx would wait for the silent one.
func TestBusyConnectionsThatHaveGoneSilent(t *testing.T) {
	t.Parallel()
	r := newRelay(t)
	pool := openGeneral(t, r.url)
	taken := takeAll(t, pool)
	r.silence()
	for _, conn := range taken {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := conn.Exec(ctx, `SELECT 1`); err == nil {
			t.Error("a silent connection has answered")
		}
		cancel()
		conn.Release()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
	defer cancel()
	if _, err := pool.Exec(ctx, `SELECT 1`); err != nil {
		t.Errorf("after all connections were given up: %v", err)
	}
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
