package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"novelgate/internal/testdb"
)

// TestFailoverLosesEvents fails over to an asynchronous standby that lacks the newest events, while the service runs.
// The new primary reuses their log indexes for other events: the read models must have these, and none of the lost
// ones.
func TestFailoverLosesEvents(t *testing.T) {
	t.Parallel()
	primary := startServer(t, nil)
	proxy := NewProxy(t, primary.url())
	service := servePatiently(t, proxy.URL)
	p := newPartner(t, primary.url())
	lost := 0
	for run := range scaled(t, "NOVELGATE_TEST_FAILOVERS", 2) {
		name := fmt.Sprintf("run-%d", run)
		p.insist(t, service, "Failover", name+"-kept")
		standby := startStandby(t, primary)
		others := newLoad(t, p, service)
		if run%2 == 1 {
			others.start(3)
			others.await(20 + rand.IntN(200))
		} else {
			awaitProjections(t, primary.url())
			primary.awaitStandby(t, standby)
		}
		standby.cut(t)
		p.insist(t, service, "Failover", name+"-lost")
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond) // any moment
		primary.crash(t)
		proxy.Cut()
		standby.promote(t)
		proxy.Point(t, standby.url())
		proxy.Mend(t)
		for n := range 6 {
			p.insist(t, service, "Failover", fmt.Sprintf("%s-new-%d", name, n))
		}
		others.stop()
		primary = standby
		lost += 1 - value[int](t, primary.url(), `SELECT count(*) FROM events WHERE event_id = $1`, name+"-lost")
		t.Run(name, func(t *testing.T) { wantSoundLog(t, primary.url()) }) // its servers are gone before the next crash
		if found := value[int](t, primary.url(), `SELECT count(*) FROM analytics.posts WHERE idempotency_key LIKE $1`,
			name+"-new-%"); found != 6 {
			t.Errorf("run %d: %d of 6 acknowledged comments are in the read models", run, found)
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	if lost == 0 {
		t.Error("no failover has lost an event: this test has shown nothing")
	}
}

// TestOldPrimary: a standby is promoted, and the replaced primary, which has crashed, starts again before an operator
// isolates it, with titles that only it has. All commands go to the promoted server, and none uses what only the old
// log has. A primary that keeps running is in internal/database: here a broken connection empties the pool, so that the
// committer does not use those that are still open to it, also without the guard.
func TestOldPrimary(t *testing.T) {
	t.Parallel()
	primary := startServer(t, nil)
	p := newPartner(t, primary.url())
	standby := startStandby(t, primary)
	r := serve(t, primaryOf(t, primary, standby)+"&connect_timeout=10") // connections go to the first writable one
	p.insist(t, r, "Both", "before")
	primary.awaitStandby(t, standby)
	standby.cut(t)
	const titles = 8 // in the cache of the service
	for i := range titles {
		p.insist(t, r, fmt.Sprint("Lost ", i), fmt.Sprint("lost-", i))
	}
	primary.crash(t)
	standby.promote(t)
	tries := 0
	testdb.Eventually(t, "a command is in the new log", func() bool {
		tries++
		p.comment(t, r, "Both", fmt.Sprint("try-", tries))
		return value[bool](t, standby.url(), `SELECT count(*) > 0 FROM events
			WHERE recorded_at > (SELECT max(recorded_at) FROM events WHERE event_id = 'before')`)
	})
	primary.start(t)
	const count = `SELECT count(*) FROM events`
	old := value[int](t, primary.url(), count)
	for round := range 4 {
		for i := range titles {
			execute(t, standby.url(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE application_name LIKE 'novelgate-%'`)
			p.insist(t, r, fmt.Sprint("Lost ", i), fmt.Sprint("after-", round, "-", i))
		}
	}
	if n := value[int](t, primary.url(), count); n != old {
		t.Errorf("the old primary got %d events", n-old)
	}
	for what, query := range map[string]string{
		"accepted comments are not there": `SELECT 32 - count(*) FROM events
			WHERE event_type = 'post.imported.v1' AND event_id LIKE 'after-%'`,
		"comments are on novels that are not there": `SELECT count(*) FROM events AS p
			WHERE event_type = 'post.imported.v1' AND NOT EXISTS (SELECT FROM events AS n
				WHERE n.event_type = 'novel.created.v1' AND n.stream_id = (p.data->>'novelId')::uuid)`,
		"comments are in threads that are not there": `SELECT count(*) FROM events AS p
			WHERE event_type = 'post.imported.v1' AND NOT EXISTS (SELECT FROM events AS t
				WHERE t.event_type = 'thread.opened.v1' AND t.stream_id = (p.data->>'threadId')::uuid)`,
	} {
		if n := value[int](t, standby.url(), query); n != 0 {
			t.Errorf("the new primary: %d %s", n, what)
		}
	}
}

// TestReplaysWaitForTheSynchronousStandby: a command whose commit waits for a standby in vain becomes visible on the
// primary after its time-out. Neither a retry nor a query may report it as recorded, and the signer does not sign it,
// because a failover would lose it.
func TestReplaysWaitForTheSynchronousStandby(t *testing.T) {
	t.Parallel()
	primary := startServer(t, nil)
	r := serve(t, primary.url())
	standby := startStandby(t, primary)
	p := newPartner(t, primary.url())
	send := func(key string) int { return p.comment(t, r, "Waiting", key).Status }
	execute(t, primary.url(), `ALTER SYSTEM SET synchronous_standby_names = '*'`, `SELECT pg_reload_conf()`)
	testdb.Eventually(t, "the standby is synchronous", func() bool {
		return value[int](t, primary.url(), `SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'`) == 1
	})
	p.insist(t, r, "Waiting", "k-0")
	awaitSigned(t, primary.url())
	standby.cut(t)
	testdb.Eventually(t, "a comment is on the primary only", func() bool {
		if status := send("k-1"); status != 503 {
			t.Fatalf("a comment that the standby lacks is answered %d", status)
		}
		return value[bool](t, primary.url(), `SELECT EXISTS (SELECT FROM events WHERE event_id = 'k-1')`)
	})
	ask := func(want int) {
		t.Helper()
		const deliveries = "/api/integrations/deliveries/"
		for _, query := range []Request{
			{Path: deliveries + "k-1?operation=posts"},
			{Path: "/api/integrations/changes"}, // has the discussion that k-0 has opened
			p.Request(deliveries+"reconcile", "", []byte(`{"operation":"posts","idempotencyKeys":["k-1"]}`)),
		} {
			query.Bearer = p.APIKey
			if got := r.Send(t, query); got.Status != want {
				t.Errorf("%s %s is answered %d, want %d", query.Method, query.Path, got.Status, want)
			}
		}
	}
	if status := send("k-1"); status != 503 {
		t.Errorf("its retry is answered %d", status)
	}
	ask(503)
	testdb.Eventually(t, "the signer waits for the standby before it stores a checkpoint", func() bool {
		return value[bool](t, primary.url(), `SELECT coalesce(bool_or(query LIKE '%pg_logical_emit_message%')
			AND NOT bool_or(query LIKE '%INTO ledger_checkpoints%'), false)
			FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
	})
	execute(t, primary.url(), `ALTER SYSTEM SET synchronous_standby_names = ''`, `SELECT pg_reload_conf()`)
	testdb.Eventually(t, "the retry is answered", func() bool { return send("k-1") == 200 })
	ask(200)
}
