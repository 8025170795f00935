package e2e_test

import (
	"fmt"
	"testing"

	"novelgate/internal/testdb"
)

// TestOldPrimaryGetsNothing: a primary that was replaced starts again while connections come and go. All commands go to
// the server that was promoted.
func TestOldPrimaryGetsNothing(t *testing.T) {
	t.Parallel()
	primary := startServer(t, nil)
	if out := RunCLI(t, primary.url(), "migrate"); out.Code != 0 {
		t.Fatal(out.Stderr)
	}
	p := newPartner(t, primary.url())
	standby := startStandby(t, primary)
	both := primaryOf(t, primary, standby)
	r := serve(t, both+"&connect_timeout=10")
	send := func(key string) bool {
		return p.send(t, r.URL, PostsPath, key, encode(comment("Fenced", "reader", key)), false).status < 300
	}
	testdb.Eventually(t, "a comment is accepted", func() bool { return send("before") })
	primary.awaitStandby(t, standby)
	standby.cut(t)
	primary.crash(t)
	standby.promote(t)
	testdb.Eventually(t, "a comment is accepted after the failover", func() bool { return send("after") })
	primary.start(t) // a moment before somebody fences it
	const count = `SELECT count(*) FROM events`
	old, accepted := value[int](t, primary.url(), count), 0
	for i := range 12 {
		execute(t, standby.url(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'novelgate-%'`)
		if send(fmt.Sprint("k-", i)) {
			accepted++
		}
	}
	if n := value[int](t, primary.url(), count); n != old {
		t.Errorf("the old primary got %d events", n-old)
	}
	if n := value[int](t, standby.url(), `SELECT count(*) FROM events WHERE event_id LIKE 'k-%'`); accepted == 0 || n < accepted {
		t.Errorf("of %d accepted comments the new primary has %d", accepted, n)
	}
}
