package e2e_test

import (
	"net/http"
	"testing"

	"novelgate/internal/testdb"
)

// TestReplaysWaitForTheSynchronousStandby: a command whose commit waits for a standby in vain is visible on the primary
// once its time is up. Neither a retry nor a query must be told that it is on record, because a failover would lose
// it.
func TestReplaysWaitForTheSynchronousStandby(t *testing.T) {
	t.Parallel()
	primary := startServer(t, nil)
	r := serve(t, primary.url())
	standby := startStandby(t, primary)
	p := newPartner(t, primary.url())
	send := func(key string) int {
		return p.send(t, r.URL, PostsPath, key, encode(comment("Waiting", "reader", key)), false).status
	}
	execute(t, primary.url(), `ALTER SYSTEM SET synchronous_standby_names = '*'`, `SELECT pg_reload_conf()`)
	testdb.Eventually(t, "the standby is synchronous", func() bool {
		return value[int](t, primary.url(), `SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'`) == 1
	})
	testdb.Eventually(t, "a comment is accepted", func() bool { return send("k-0") < 300 })
	standby.cut(t)
	testdb.Eventually(t, "a comment is on the primary only", func() bool {
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
			if got := r.Send(t, Request{
				Method: query.method, Path: query.path, Bearer: p.APIKey, ContentType: "application/json", Body: []byte(query.body),
			}); got.Status != want {
				t.Errorf("%s %s is answered %d, want %d", query.method, query.path, got.Status, want)
			}
		}
	}
	ask(http.StatusServiceUnavailable)
	execute(t, primary.url(), `ALTER SYSTEM SET synchronous_standby_names = ''`, `SELECT pg_reload_conf()`)
	testdb.Eventually(t, "the retry is answered", func() bool { return send("k-1") == 200 })
	ask(http.StatusOK)
}
