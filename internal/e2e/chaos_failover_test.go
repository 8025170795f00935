package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"novelgate/internal/testdb"
)

// failovers returns the number of failovers of a test: few, or NOVELGATE_TEST_FAILOVERS.
func failovers(t testing.TB, few int) int {
	t.Helper()
	return scaled(t, "NOVELGATE_TEST_FAILOVERS", few)
}

// TestFailoverLosesEvents fails over to an asynchronous standby that lacks the newest events, while the service runs.
// The new primary reuses their transaction ids for other events: the read models must have these, and none of the lost
// ones.
func TestFailoverLosesEvents(t *testing.T) {
	t.Parallel()
	primary := startServer(t, nil)
	proxy := NewProxy(t, primary.url())
	service := serve(t, proxy.URL, patient...)
	p := newPartner(t, primary.url())
	lost := 0
	for run := range failovers(t, 2) {
		name := fmt.Sprintf("run-%d", run)
		send := func(key string) {
			t.Helper()
			body := encode(comment("Failover", "reader", key))
			testdb.Eventually(t, key+" is acknowledged", func() bool {
				return p.send(t, service.URL, PostsPath, key, body, true).succeeded()
			})
		}
		send(name + "-kept")
		standby := startStandby(t, primary)
		var others *load
		if run%2 == 1 {
			others = newLoad(t, p)
			others.aim(service)
			others.start(3)
			others.book.await(20 + rand.IntN(200))
		} else {
			awaitProjections(t, primary.url(), readLog(t, primary.url()))
			primary.awaitStandby(t, standby)
		}
		standby.cut(t)
		send(name + "-lost")
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond) // any moment
		primary.crash(t)
		proxy.Cut()
		standby.promote(t)
		proxy.Point(t, standby.url())
		proxy.Mend(t)
		for n := range 6 {
			send(fmt.Sprintf("%s-new-%d", name, n))
		}
		if others != nil {
			others.stop()
		}
		primary = standby
		lost += 1 - value[int](t, primary.url(), `SELECT count(*) FROM events WHERE event_id = $1`, name+"-lost")
		t.Run(name, func(t *testing.T) { wantReplayed(t, primary.url()) }) // its servers are gone before the next crash
		if found := value[int](t, primary.url(), `SELECT count(*) FROM posts AS p WHERE NOT EXISTS (
			SELECT FROM events AS e WHERE e.stream_id = p.post_id AND e.recorded_at = p.recorded_at)`); found != 0 {
			t.Errorf("run %d: %d comments that are not in the log", run, found)
		}
		if found := value[int](t, primary.url(), `SELECT count(*) FROM analytics.posts WHERE idempotency_key LIKE $1`,
			name+"-new-%"); found != 6 {
			t.Errorf("run %d: %d of 6 acknowledged comments are in the read models", run, found)
		}
		if t.Failed() {
			t.Fatalf("run %d", run)
		}
	}
	if lost == 0 {
		t.Error("no failover has lost an event: this test has shown nothing")
	}
	t.Logf("%d failovers have lost an event", lost)
}

// TestOldPrimaryGetsNothing: a replaced primary starts again while connections open and close. All commands go to the
// promoted server.
func TestOldPrimaryGetsNothing(t *testing.T) {
	t.Parallel()
	primary := startServer(t, nil)
	MustCLI(t, primary.url(), "migrate")
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
	primary.start(t) // before an operator isolates it
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

// TestReplaysWaitForTheSynchronousStandby: a command whose commit waits for a standby in vain becomes visible on the
// primary after its time-out. Neither a retry nor a query may report it as recorded, because a failover would lose it.
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
	testdb.Eventually(t, "all is signed", func() bool {
		return value[bool](t, primary.url(), `SELECT coalesce(max(tree_size), 0) = (SELECT count(*) FROM events)
			FROM ledger_checkpoints`)
	})
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
			{http.MethodGet, "/api/integrations/changes", ""}, // has the discussion that k-0 has opened
		} {
			if got := r.Send(t, Request{
				Method: query.method, Path: query.path, Bearer: p.APIKey, ContentType: "application/json", Body: []byte(query.body),
			}); got.Status != want {
				t.Errorf("%s %s is answered %d, want %d", query.method, query.path, got.Status, want)
			}
		}
	}
	ask(http.StatusServiceUnavailable)
	// Nor is it signed: the signer directory must not have what a failover would lose, so the signer waits before it
	// stores a checkpoint there and then in the database.
	testdb.Eventually(t, "the signer waits for the standby", func() bool {
		return value[bool](t, primary.url(), `SELECT coalesce(bool_or(query LIKE '%pg_logical_emit_message%')
			AND NOT bool_or(query LIKE '%INTO ledger_checkpoints%'), false)
			FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
	})
	execute(t, primary.url(), `ALTER SYSTEM SET synchronous_standby_names = ''`, `SELECT pg_reload_conf()`)
	testdb.Eventually(t, "the retry is answered", func() bool { return send("k-1") == 200 })
	ask(http.StatusOK)
}

// TestOldPrimaryBesidePromotedStandby: a standby is promoted while the service has connections to the primary, which
// keeps running. After the first command in the new log, all commands go there, and none uses data that only the old
// log has.
func TestOldPrimaryBesidePromotedStandby(t *testing.T) {
	t.Parallel()
	primary := startServer(t, nil)
	MustCLI(t, primary.url(), "migrate")
	p := newPartner(t, primary.url())
	standby := startStandby(t, primary)
	// New connections go to the promoted server, the first writable one.
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
	// Connections open and close until the service uses the promoted server. Those to the old one stay open.
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
