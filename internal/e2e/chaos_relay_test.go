package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"novelgate/events/ledger"
	"novelgate/events/relay"
	"novelgate/events/relay/relaytest"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

// TestRelayKilled posts comments while replicas that relay are killed one after the other, PostgreSQL is killed, an
// author is erased while a server of NATS is away, and the leader of the stream is away, or the quorum. At the end the
// streams have the events of the log in their order, with the root that was signed, and neither they nor the log have
// the author's words.
func TestRelayKilled(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	comments := scaled(t, "NOVELGATE_TEST_RELAY_COMMENTS", 800)
	pause := 100 * time.Millisecond
	if comments > 100_000 {
		pause = 0
	}
	primary, service, load, _ := underLoad(t, pause)
	servers := relaytest.New(t, 3)
	_, js := servers.Connect()
	startRelay := func() *Service { return serve(t, primary.url(), "--relay", servers.URL()) }
	relays := []*Service{startRelay(), startRelay()}
	p, title := newPartner(t, primary.url()), Unique("Erased")
	p.Service = service
	for range 30 {
		p.importUntilAccepted(t, Key(), Comment(title).With(Fields{
			"uuid": plantedUUID, "username": plantedName, "content": plantedWords,
		}))
	}
	origin := *ledgerStatus(t, service).Origin
	stream := relay.StreamName(origin)
	relayed := func() uint64 {
		found, err := js.Stream(t.Context(), stream)
		if err != nil {
			return 0
		}
		return found.CachedInfo().State.LastSeq
	}
	holding := func() (n int) {
		for i := range 3 {
			n += len(relaytest.Holding(t, servers.StoreDir(i), plantedWords))
		}
		return n
	}
	testdb.Eventually(t, "the words are relayed to all servers", func() bool { return holding() >= 3 })
	began := time.Now()
	faults := []func(share func()){
		func(share func()) {
			servers.Stop(2)
			testdb.Eventually(t, "the author is erased", func() bool {
				return RunCLI(t, primary.url(), "author", "erase", p.Name, plantedUUID, "--reason", "asked").Code == 0
			})
			share()
			servers.Start(2)
		},
		func(share func()) { primary.crash(t); primary.start(t); share() },
		func(share func()) {
			leader := max(0, servers.Leader(t.Context(), js, stream))
			servers.Stop(leader)
			share()
			servers.Start(leader)
		},
		func(share func()) { // no quorum, for 20 s with 200,000 comments
			servers.Stop(0)
			servers.Stop(1)
			primary.crash(t)
			primary.start(t)
			share()
			time.Sleep(time.Duration(comments) * 100 * time.Microsecond)
			servers.Start(0)
			servers.Start(1)
		},
	}
	for i, strike := range faults {
		share := func() { load.await(comments / len(faults) / 2) }
		before := relayed()
		relays[i%2].kill()
		strike(share)
		relays[i%2] = startRelay()
		share()
		testdb.Eventually(t, fmt.Sprint("the stream goes on after fault ", i), func() bool { return relayed() > before })
		t.Logf("after fault %d and %v: %d messages", i, time.Since(began).Round(time.Second), relayed())
	}
	load.settle(service, primary.url())
	awaitSigned(t, primary.url())
	size := value[int64](t, primary.url(), `SELECT count(*) FROM events`)
	testdb.Eventually(t, "the relay has all events", func() bool { return relayed() == uint64(size) })

	pool := testdb.Must(database.OpenHistory(t.Context(), primary.url()))(t)
	defer pool.Close()
	tree := relaytest.WantLog(t, js, pool)
	_, text := Get(t, service.URL+"/ledger/checkpoint")
	if signed, err := ledger.ParseCheckpoint([]byte(text)); err != nil || signed.Tree != tree {
		t.Errorf("the service has signed %v, and the leaves in the stream give %v; %v", signed.Tree, tree, err)
	}
	testdb.Eventually(t, "the servers have lost the words", func() bool { return holding() == 0 })
	compact(t, primary.url())
	if held := testdb.FindWords(t, primary.url(), plantedWords, plantedUUID, plantedName); len(held) > 0 {
		t.Errorf("what was erased is in %v", held)
	}
}
