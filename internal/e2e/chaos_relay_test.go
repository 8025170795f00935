package e2e_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"novelgate/events/ledger"
	"novelgate/events/relay"
	"novelgate/events/relay/relaytest"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

// natsServers are three NATS servers, each a process.
type natsServers struct {
	t         *testing.T
	port      int
	dir       string
	processes [3]*process
	js        jetstream.JetStream
}

func startNATS(t *testing.T) *natsServers {
	t.Helper()
	testdb.SkipShort(t)
	n := &natsServers{t: t, port: freePorts(t), dir: t.TempDir()}
	for i := range n.processes {
		n.start(i)
	}
	conn, err := nats.Connect(n.url(), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if n.js, err = jetstream.New(conn); err != nil {
		t.Fatal(err)
	}
	return n
}

// start starts a server, which finds what it has stored, and waits until it listens.
func (n *natsServers) start(i int) {
	n.t.Helper()
	n.processes[i] = launchProgram(n.t, built(n.t, clusterProgram), "nats", fmt.Sprint(i), "--port", fmt.Sprint(n.port),
		"--data-dir", n.dir)
	n.processes[i].line(n.t, "NATS is listening on ")
}

// url returns the addresses of the servers: in the ports of a cluster they come after six others.
func (n *natsServers) url() string {
	addresses := make([]string, len(n.processes))
	for i := range addresses {
		addresses[i] = fmt.Sprintf("nats://127.0.0.1:%d", n.port+6+i)
	}
	return strings.Join(addresses, ",")
}

// state returns the last sequence of a stream and the server that leads it; false if no server can tell.
func (n *natsServers) state(stream string) (last uint64, leader int, known bool) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	found, err := n.js.Stream(ctx, stream)
	if err != nil || found.CachedInfo().Cluster == nil {
		return 0, 0, false
	}
	info := found.CachedInfo()
	_, err = fmt.Sscanf(info.Cluster.Leader, "n%d", &leader)
	return info.State.LastSeq, leader, err == nil
}

// holding returns the files of the personal stream of an origin that contain a text, of all servers.
func (n *natsServers) holding(origin, text string) (files []string) {
	for i := range n.processes {
		streams := filepath.Join(n.dir, "nats", fmt.Sprint("n", i), "jetstream", "$G", "streams")
		dir := filepath.Join(streams, relay.PersonalStreamName(origin))
		files = append(files, relaytest.Holding(n.t, dir, text)...)
	}
	return files
}

// TestRelayAndMirrorKilled posts comments while the relay is killed ten times, each NATS server and the leader of the
// stream are killed, the servers lose their quorum, and the mirror that reads from them, its PostgreSQL and that of the
// origin are killed, and an author is erased while a server of NATS is away. At the end the streams have the events of
// the log in their order, the mirror has the log and the tables of its origin, as has one that begins then. All have
// the root that was signed, and none has the author's words.
func TestRelayAndMirrorKilled(t *testing.T) {
	t.Parallel()
	const faults = 10
	comments := scaled(t, "NOVELGATE_TEST_RELAY_COMMENTS", 3000)
	pause := 100 * time.Millisecond
	if comments > 100_000 {
		pause = 0
	}
	servers, own := startNATS(t), startServer(t, nil)
	primary, service, load, _ := underLoad(t, pause)
	relays := make([]*process, 2)
	startRelay := func(i int) {
		relays[i] = launch(t, "relay", "--relay", servers.url(), "--database-url", primary.url())
	}
	startRelay(0)
	startRelay(1)
	p, title := newPartner(t, primary.url()), Unique("Erased")
	for range 30 {
		importUntilAccepted(t, p.at(service), Key(), Comment(title).With(Fields{
			"uuid": plantedUUID, "username": plantedName, "content": plantedWords,
		}))
	}
	flags := natsMirrorFlags(t, servers.url(), service)
	mirror := serve(t, own.url(), flags...)
	origin := *ledgerStatus(t, service).Origin
	stream := relay.StreamName(origin)
	began := time.Now()

	share := func() { load.book.await(comments / (faults + 1) / 2) }
	killNATS := func(i int) {
		servers.processes[i].kill()
		share()
		servers.start(i)
	}
	mirrored := func() int64 { return value[int64](t, own.url(), `SELECT tree_size FROM mirror`) }
	var last uint64
	for fault, strike := range [faults]func(){
		func() { killNATS(0) },
		func() { mirror.kill(); share(); mirror = serve(t, own.url(), flags...) },
		func() { killNATS(1) },
		func() { own.crash(t); share(); own.start(t) },
		func() {
			testdb.Eventually(t, "the words are relayed and mirrored", func() bool {
				return len(servers.holding(origin, plantedWords)) >= len(servers.processes) &&
					value[int](t, own.url(), `SELECT count(*) FROM events WHERE personal ->> 'content' = $1`, plantedWords) == 30
			})
			servers.processes[2].kill()
			testdb.Eventually(t, "the author is erased", func() bool {
				return RunCLI(t, primary.url(), "author", "erase", p.Name, plantedUUID, "--reason", "asked").Code == 0
			})
			share()
			servers.start(2)
		},
		func() { primary.crash(t); primary.start(t); share() },
		func() {
			leader := 0
			testdb.Eventually(t, "a server leads the stream", func() (known bool) {
				_, leader, known = servers.state(stream)
				return known
			})
			killNATS(leader)
		},
		func() { // no quorum, for 20 s with 200,000 comments
			servers.processes[0].kill()
			servers.processes[2].kill()
			lost := time.Now()
			share()
			testdb.Eventually(t, "the quorum was lost long enough", func() bool {
				return time.Since(lost) > time.Duration(comments)*100*time.Microsecond
			})
			servers.start(0)
			servers.start(2)
		},
		func() { mirror.kill(); own.crash(t); killNATS(1); own.start(t); mirror = serve(t, own.url(), flags...) },
		func() { primary.crash(t); primary.start(t); killNATS(0) },
	} {
		relays[fault%2].kill()
		strike()
		startRelay(fault % 2)
		share()
		if now, _, known := servers.state(stream); known {
			last = now
		}
		size := mirrored()
		t.Logf("after fault %d and %v: %d messages, %d events mirrored", fault, time.Since(began).Round(time.Second), last,
			size)
		testdb.Eventually(t, fmt.Sprint("stream and mirror go on after fault ", fault), func() bool {
			now, _, known := servers.state(stream)
			return known && now > last && mirrored() > size
		})
	}
	commented := func() int64 {
		return value[int64](t, primary.url(), `SELECT count(*) FROM events WHERE event_type = 'post.imported.v1'`)
	}
	testdb.Eventually(t, "the comments are sent", func() bool { return commented() >= int64(comments) })
	sent := time.Since(began)
	load.settle(t, service, primary.url())
	awaitSealed(t, primary.url())
	size := value[int64](t, primary.url(), `SELECT count(*) FROM events`)
	testdb.Eventually(t, "the relay has all events", func() bool {
		last, _, _ := servers.state(stream)
		return last == uint64(size)
	})
	wantMirrored(t, service.URL, primary.url(), mirror.URL, own.url())

	pool := testdb.Must(database.OpenHistory(t.Context(), primary.url()))(t)
	defer pool.Close()
	tree := relaytest.WantLog(t, servers.js, pool)
	for _, url := range []string{service.URL, mirror.URL} {
		_, text := Get(t, url+"/ledger/checkpoint")
		if signed, err := ledger.ParseCheckpoint([]byte(text)); err != nil || signed.Tree != tree {
			t.Errorf("%s has signed %v, and the leaves in the stream give %v; %v", url, signed.Tree, tree, err)
		}
	}
	// A mirror that begins now reads all at once.
	late, started := startServer(t, nil), time.Now()
	another := serve(t, late.url(), flags...)
	testdb.Eventually(t, "another mirror has all events", func() bool {
		return value[int64](t, late.url(), `SELECT coalesce(max(tree_size), 0) FROM mirror`) == size
	})
	t.Logf("%d comments, %d events: sent in %v, all took %v; another mirror took %v", commented(), size,
		sent.Round(time.Second), time.Since(began).Round(time.Second), time.Since(started).Round(100*time.Millisecond))
	wantMirrored(t, service.URL, primary.url(), another.URL, late.url())

	testdb.Eventually(t, "the servers have lost the words", func() bool {
		return len(servers.holding(origin, plantedWords)) == 0
	})
	for _, url := range []string{primary.url(), own.url(), late.url()} {
		compact(t, url)
		if held := testdb.FindWords(t, url, plantedWords, plantedUUID, plantedName); len(held) > 0 {
			t.Errorf("what was erased is in %v", held)
		}
	}
}
