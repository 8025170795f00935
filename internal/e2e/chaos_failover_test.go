package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"novelgate/internal/testdb"
)

// failovers is how many failovers a test makes: a few, or as many as NOVELGATE_TEST_FAILOVERS says.
func failovers(t testing.TB, few int) int {
	t.Helper()
	text := os.Getenv("NOVELGATE_TEST_FAILOVERS")
	if text == "" {
		return few
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("NOVELGATE_TEST_FAILOVERS: %v", err)
	}
	return n
}

// TestFailoverLosesEvents fails over to an asynchronous standby that lacks the newest events, under a living service.
// The new primary uses the transaction ids of what is lost for other events: the read models must hold these, and
// nothing of what is lost.
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
			awaitProjections(t, primary.url(), settledLog(t, primary.url()))
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
		t.Run(name, func(t *testing.T) { wantReplayed(t, primary.url()) }) // what it needs is gone before the next crash
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
