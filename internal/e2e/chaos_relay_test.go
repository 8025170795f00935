package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
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

// natsCommand makes the program of the tests a NATS server, see runNATS.
const natsCommand = "nats"

// natsReady begins the line that a NATS server prints when it listens.
const natsReady = "NATS is listening on port "

// runNATS runs a NATS server until it is killed, and returns the exit code. args are the server's number, the common
// directory, and the ports of all servers: first those for clients.
func runNATS(args []string) int {
	ports := make([]int, len(args[2:]))
	number, err := strconv.Atoi(args[0])
	for i, arg := range args[2:] {
		var wrong error
		ports[i], wrong = strconv.Atoi(arg)
		err = errors.Join(err, wrong)
	}
	if err == nil {
		half := len(ports) / 2
		options := relaytest.Options(args[1], ports[:half], ports[half:])[number]
		options.NoLog, options.Logtime = false, true
		s, startErr := relaytest.Serve(options)
		if err = startErr; err == nil {
			fmt.Printf("%s%d\n", natsReady, options.Port)
			s.WaitForShutdown()
		}
	}
	fmt.Fprintln(os.Stderr, "nats:", err)
	return 1
}

// natsServers are three NATS servers, each a process.
type natsServers struct {
	t         *testing.T
	ports     []string
	dir       string
	processes [3]*process
	js        jetstream.JetStream
}

func startNATS(t *testing.T) *natsServers {
	t.Helper()
	testdb.SkipShort(t)
	n := &natsServers{t: t, dir: t.TempDir()}
	for range 2 * len(n.processes) {
		n.ports = append(n.ports, strconv.Itoa(testdb.ReservePort(t)))
	}
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
	program := testdb.Must(os.Executable())(n.t)
	args := append([]string{natsCommand, strconv.Itoa(i), n.dir}, n.ports...)
	n.processes[i] = launchProgram(n.t, program, args...)
	n.processes[i].line(n.t, natsReady)
}

// url returns the addresses of the servers.
func (n *natsServers) url() string {
	addresses := make([]string, len(n.processes))
	for i := range addresses {
		addresses[i] = "nats://127.0.0.1:" + n.ports[i]
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
		streams := filepath.Join(n.dir, fmt.Sprint("n", i), "jetstream", "$G", "streams")
		dir := filepath.Join(streams, relay.PersonalStreamName(origin))
		files = append(files, relaytest.Holding(n.t, dir, text)...)
	}
	return files
}

// TestRelayKilled posts comments while the relay is killed seven times, each NATS server and the leader of the stream
// are killed, the servers lose their quorum, PostgreSQL is killed, and an author is erased while a server of NATS is
// away. At the end the streams have the events of the log in their order, with the root that was signed, and neither
// they nor the log have the author's words.
func TestRelayKilled(t *testing.T) {
	t.Parallel()
	const faults = 7
	comments := scaled(t, "NOVELGATE_TEST_RELAY_COMMENTS", 3000)
	pause := 100 * time.Millisecond
	if comments > 100_000 {
		pause = 0
	}
	servers := startNATS(t)
	primary, service, load, _ := underLoad(t, pause)
	relays := make([]*process, 2)
	startRelay := func(i int) {
		relays[i] = launch(t, "relay", "--relay", servers.url(), "--database-url", primary.url())
	}
	startRelay(0)
	startRelay(1)
	p, title := newPartner(t, primary.url()), Unique("Erased")
	p.Service = service
	for range 30 {
		importUntilAccepted(t, p, Key(), Comment(title).With(Fields{
			"uuid": plantedUUID, "username": plantedName, "content": plantedWords,
		}))
	}
	origin := *ledgerStatus(t, service).Origin
	stream := relay.StreamName(origin)
	began := time.Now()

	share := func() { load.book.await(comments / (faults + 1) / 2) }
	killNATS := func(i int) {
		servers.processes[i].kill()
		share()
		servers.start(i)
	}
	var last uint64
	for fault, strike := range [faults]func(){
		func() { killNATS(0) },
		func() { killNATS(1) },
		func() {
			testdb.Eventually(t, "the words are relayed", func() bool {
				return len(servers.holding(origin, plantedWords)) >= len(servers.processes)
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
		func() { primary.crash(t); servers.processes[1].kill(); primary.start(t); share(); servers.start(1) },
	} {
		relays[fault%2].kill()
		strike()
		startRelay(fault % 2)
		share()
		if now, _, known := servers.state(stream); known {
			last = now
		}
		t.Logf("after fault %d and %v: %d messages", fault, time.Since(began).Round(time.Second), last)
		testdb.Eventually(t, fmt.Sprint("the stream goes on after fault ", fault), func() bool {
			now, _, known := servers.state(stream)
			return known && now > last
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
	t.Logf("%d comments, %d events: sent in %v, all took %v", commented(), size, sent.Round(time.Second),
		time.Since(began).Round(time.Second))

	pool := testdb.Must(database.OpenHistory(t.Context(), primary.url()))(t)
	defer pool.Close()
	tree := relaytest.WantLog(t, servers.js, pool)
	_, text := Get(t, service.URL+"/ledger/checkpoint")
	if signed, err := ledger.ParseCheckpoint([]byte(text)); err != nil || signed.Tree != tree {
		t.Errorf("the service has signed %v, and the leaves in the stream give %v; %v", signed.Tree, tree, err)
	}
	testdb.Eventually(t, "the servers have lost the words", func() bool {
		return len(servers.holding(origin, plantedWords)) == 0
	})
	compact(t, primary.url())
	if held := testdb.FindWords(t, primary.url(), plantedWords, plantedUUID, plantedName); len(held) > 0 {
		t.Errorf("what was erased is in %v", held)
	}
}
