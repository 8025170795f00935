package chaos_test

import (
	"net/http"
	"testing"
	"time"

	"novelgate/internal/blackbox"
)

// TestReplaysWaitForTheSynchronousStandby: a command whose commit waits for a standby in vain is visible on the primary
// once its time is up. Neither a retry nor a query must be told that it is on record, because a failover would lose
// it.
func TestReplaysWaitForTheSynchronousStandby(t *testing.T) {
	t.Parallel()
	primary := startServer(t)
	r := serve(t, primary.url())
	standby := startStandby(t, primary)
	p := newPartner(t, primary.url())
	send := func(key string) int {
		return p.send(r.URL, blackbox.PostsPath, key, encode(comment("Waiting", "reader", key)), false).status
	}
	execute(t, primary.url(), `ALTER SYSTEM SET synchronous_standby_names = '*'`, `SELECT pg_reload_conf()`)
	blackbox.Eventually(t, time.Minute, "the standby is synchronous", func() bool {
		return value[int](t, primary.url(), `SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'`) == 1
	})
	blackbox.Eventually(t, time.Minute, "a comment is accepted", func() bool { return send("k-0") < 300 })
	standby.cut(t)
	blackbox.Eventually(t, time.Minute, "a comment is on the primary only", func() bool {
		status := send("k-1")
		if status != 503 {
			t.Fatalf("a comment that the standby lacks is answered %d", status)
		}
		return value[bool](t, primary.url(), `SELECT EXISTS (SELECT FROM events WHERE event_id = 'k-1')`)
	})
	for range 3 {
		if status := send("k-1"); status != 503 {
			t.Errorf("its retry is answered %d", status)
		}
	}
	ask := func(want int) {
		t.Helper()
		const deliveries = "/api/integrations/deliveries/"
		for _, query := range []struct{ method, path, body string }{
			{http.MethodGet, deliveries + "k-1?operation=posts", ""},
			{http.MethodPost, deliveries + "reconcile", `{"operation":"posts","idempotencyKeys":["k-1"]}`},
		} {
			if status := p.ask(query.method, r.URL+query.path, query.body); status != want {
				t.Errorf("%s %s is answered %d, want %d", query.method, query.path, status, want)
			}
		}
	}
	ask(http.StatusServiceUnavailable)
	execute(t, primary.url(), `ALTER SYSTEM SET synchronous_standby_names = ''`, `SELECT pg_reload_conf()`)
	blackbox.Eventually(t, time.Minute, "the retry is answered", func() bool { return send("k-1") == 200 })
	ask(http.StatusOK)
}
