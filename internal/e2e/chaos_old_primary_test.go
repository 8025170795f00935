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

// TestOldPrimaryBesidePromotedStandby: a standby is promoted while the service has connections open to the primary,
// which lives on. From the first command in the new log on, all commands go there, and none refers to what only the old
// log has.
func TestOldPrimaryBesidePromotedStandby(t *testing.T) {
	t.Parallel()
	primary := startServer(t, nil)
	if out := RunCLI(t, primary.url(), "migrate"); out.Code != 0 {
		t.Fatal(out.Stderr)
	}
	p := newPartner(t, primary.url())
	standby := startStandby(t, primary)
	// New connections go to the promoted server, the first that can be written.
	r := serve(t, primaryOf(t, standby, primary)+"&connect_timeout=10")
	send := func(title, key string) answer {
		return p.send(t, r.URL, PostsPath, key, encode(comment(title, "reader", "name")), false)
	}
	accepted := func(title, key string) bool { return send(title, key).status < 300 }
	testdb.Eventually(t, "a comment is accepted", func() bool { return accepted("Both", "before") })
	primary.awaitStandby(t, standby)
	standby.cut(t)
	// Titles that only the old log has, in the cache of the service.
	const titles = 8
	for i := range titles {
		title, key := fmt.Sprint("Lost ", i), fmt.Sprint("lost-", i)
		testdb.Eventually(t, "a comment is accepted", func() bool { return accepted(title, key) })
	}
	standby.promote(t)
	// Connections open and close, so that the service comes to use the promoted server. Those to the old one live.
	testdb.Eventually(t, "a command is in the new log", func() bool {
		execute(t, primary.url(), `SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity
			WHERE application_name LIKE 'novelgate-%' ORDER BY random() LIMIT 1) AS one`)
		accepted("Both", Key())
		return value[bool](t, standby.url(), `SELECT count(*) > 0 FROM events
			WHERE recorded_at > (SELECT max(recorded_at) FROM events WHERE event_id = 'before')`)
	})
	const count = `SELECT count(*) FROM events`
	old := value[int](t, primary.url(), count)
	var keys []string
	for round := range 4 {
		for i := range titles {
			key := fmt.Sprint("after-", round, "-", i)
			testdb.Eventually(t, "a comment is accepted", func() bool { return accepted(fmt.Sprint("Lost ", i), key) })
			keys = append(keys, key)
		}
	}
	if n := value[int](t, primary.url(), count); n != old {
		t.Errorf("the old primary got %d events", n-old)
	}
	if n := value[int](t, standby.url(), `SELECT count(*) FROM events
		WHERE event_type = 'post.imported.v1' AND event_id = ANY($1)`, keys); n != len(keys) {
		t.Errorf("of %d accepted comments the new primary has %d", len(keys), n)
	}
	if n := value[int](t, standby.url(), `SELECT count(*) FROM events AS p
		WHERE event_type = 'post.imported.v1' AND NOT EXISTS (SELECT FROM events AS n
			WHERE n.event_type = 'novel.created.v1' AND n.stream_id = (p.data->>'novelId')::uuid)`); n > 0 {
		t.Errorf("%d comments in the new log are on novels that it does not have", n)
	}
	if n := value[int](t, standby.url(), `SELECT count(*) FROM events AS p
		WHERE event_type = 'post.imported.v1' AND NOT EXISTS (SELECT FROM events AS t
			WHERE t.event_type = 'thread.opened.v1' AND t.stream_id = (p.data->>'threadId')::uuid)`); n > 0 {
		t.Errorf("%d comments in the new log are in threads that it does not have", n)
	}
}
