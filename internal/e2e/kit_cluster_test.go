//go:build chaos

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/ledger"
	"novelgate/internal/cluster"
	"novelgate/internal/testdb"
)

// clusterProgram builds the program of make run-cluster.
var clusterProgram = sync.OnceValues(func() (string, error) {
	return build("novelgate/internal/cluster/main", "cluster", false)
})

// networkOfTest returns the first three numbers of loopback addresses that no other test process uses.
func networkOfTest(number int) string { return fmt.Sprintf("127.%d.%d", 1+os.Getpid()%250, number) }

// highlyAvailable is a running deploy/cluster with a wire for each database machine: its network cable.
type highlyAvailable struct {
	*cluster.Cluster
	t     testing.TB
	wires map[string]*wire
	js    jetstream.JetStream
}

// startCluster starts deploy/cluster. It is stopped when the test ends; after a failure its logs are kept.
func startCluster(t testing.TB, number int) *highlyAvailable {
	t.Helper()
	dir := testdb.Must(os.MkdirTemp("", "novelgate-chaos-"))(t)
	if err := os.Chmod(dir, 0o711); err != nil { // the account of PostgreSQL must pass
		t.Fatal(err)
	}
	h := &highlyAvailable{t: t, wires: map[string]*wire{}}
	network := networkOfTest(number)
	address := func(host int) string { return fmt.Sprint(network, ".", host) }
	// Others reach the PostgreSQL and the Patroni of machine i at 100+i. Patroni there reaches etcd k at 100+10*i+k.
	seen, env := map[string]string{}, map[string][]string{}
	for i, machine := range cluster.Databases {
		h.wires[machine] = &wire{}
		forward := func(from, to string) {
			h.wires[machine].forward(t, "tcp", from, func() (net.Conn, error) { return net.Dial("tcp", to) })
		}
		inside, outside := address(i+1), address(101+i)
		forward(outside+":5432", inside+":5432")
		forward(outside+":8008", inside+":8008")
		var etcd []string
		for k := range cluster.Databases {
			way := address(111+10*i+k) + ":2379"
			forward(way, address(k+1)+":2379")
			etcd = append(etcd, way)
		}
		seen[strings.ToUpper(machine)] = outside
		env[machine+"patroni"] = []string{
			"PATRONI_RESTAPI_CONNECT_ADDRESS=" + outside + ":8008", "PATRONI_POSTGRESQL_CONNECT_ADDRESS=" + outside + ":5432",
			"PATRONI_ETCD_HOSTS=" + strings.Join(etcd, ","), "PATRONI_ETCD_USE_PROXIES=true",
		}
	}
	for _, machine := range []string{cluster.R1, cluster.R2} {
		env[machine+"novelgate"] = []string{
			"NOVELGATE_WEBHOOK_ALLOW_CIDR=127.0.0.1/32",
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var err error
	h.Cluster, err = cluster.Start(ctx, cluster.Config{
		Dir: dir, Network: network, Novelgate: Binary(t), NATS: []string{testdb.Must(clusterProgram())(t), "nats"},
		Env:     func(machine, name string) []string { return env[machine+name] },
		HAProxy: seen, Log: func(said string) { t.Log(time.Now().Format(time.TimeOnly), said) },
	})
	t.Cleanup(func() { h.end(dir) })
	if err != nil {
		t.Fatal(err)
	}
	conn := testdb.Must(nats.Connect(h.NATSURL(), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond)))(t)
	t.Cleanup(conn.Close)
	h.js = testdb.Must(jetstream.New(conn, jetstream.WithDefaultTimeout(30*time.Second)))(t)
	return h
}

// end stops the cluster, and searches its logs for secrets.
func (h *highlyAvailable) end(dir string) {
	h.Stop()
	for _, w := range h.wires {
		w.Cut()
	}
	for _, file := range testdb.Must(filepath.Glob(filepath.Join(dir, "*.log")))(h.t) {
		text := testdb.Must(os.ReadFile(file))(h.t)
		wantNoSecret(h.t, filepath.Base(file), text)
		if strings.Contains(file, "novelgate") && strings.Contains(string(text), "panic") {
			h.t.Errorf("%s has a panic", file)
		}
	}
	if h.t.Failed() {
		h.t.Logf("the logs are in %s", dir)
		return
	}
	if err := os.RemoveAll(dir); err != nil {
		h.t.Error(err)
	}
}

// service returns a client of the service behind HAProxy.
func (h *highlyAvailable) service() *Service {
	s := Attach(h.URL())
	s.DatabaseURL = h.Postgres(cluster.Proxy)
	h.t.Cleanup(s.http.CloseIdleConnections)
	return s
}

// with returns a machine with a role.
func (h *highlyAvailable) with(role string) (machine string) {
	h.t.Helper()
	testdb.Eventually(h.t, "there is a "+role, func() bool {
		members, err := h.Members(h.t.Context(), cluster.N1)
		machine = cluster.Role(members, role)
		return err == nil && machine != ""
	})
	return machine
}

// awaitHealthy waits until all is well, and both standbys stream from the primary.
func (h *highlyAvailable) awaitHealthy() {
	h.t.Helper()
	var err error
	defer func() {
		if h.t.Failed() {
			h.t.Log("the cluster is not healthy: ", err)
		}
	}()
	testdb.Eventually(h.t, "the cluster is healthy", func() bool {
		if err = h.Healthy(h.t.Context()); err != nil {
			return false
		}
		return value[int](h.t, h.Postgres(h.with(cluster.Leader)),
			`SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'`) == 2
	})
}

// freeze suspends a machine with all that runs on it: etcd, NATS, Patroni, PostgreSQL and their children. thaw resumes
// all of them.
func (h *highlyAvailable) freeze(machine string) (thaw func()) {
	h.t.Helper()
	roots := []int{h.Postmaster(machine)}
	for _, name := range []string{"patroni", "etcd", "nats"} {
		roots = append(roots, h.Part(machine, name).PID())
	}
	var stopped []int
	for before := -1; len(stopped) > before; { // what forked meanwhile
		before = len(stopped)
		for _, pid := range withDescendants(h.t, roots) {
			if !slices.Contains(stopped, pid) && syscall.Kill(pid, syscall.SIGSTOP) == nil {
				stopped = append(stopped, pid)
			}
		}
	}
	thaw = sync.OnceFunc(func() {
		for _, pid := range stopped {
			_ = syscall.Kill(pid, syscall.SIGCONT) // it may have ended
		}
	})
	h.t.Cleanup(thaw)
	return thaw
}

// withDescendants returns processes, their children, the children of these, and so on.
func withDescendants(t testing.TB, pids []int) []int {
	parents := map[int]int{}
	for _, directory := range testdb.Must(filepath.Glob("/proc/[0-9]*"))(t) {
		var pid int
		_, _ = fmt.Sscan(filepath.Base(directory), &pid)
		_, parents[pid] = stat(pid)
	}
	all := slices.Clone(pids)
	for i := 0; i < len(all); i++ {
		for pid, parent := range parents {
			if parent == all[i] {
				all = append(all, pid)
			}
		}
	}
	return all
}

// cutOff cuts a machine off: nothing reaches its PostgreSQL and its Patroni, and they do not reach etcd.
func (h *highlyAvailable) cutOff(machine string) (mend func()) {
	w := h.wires[machine]
	w.still.Lock()
	mend = sync.OnceFunc(w.still.Unlock)
	h.t.Cleanup(mend)
	return mend
}

// leaderOfEtcd returns the machine whose etcd leads the others.
func (h *highlyAvailable) leaderOfEtcd() (machine string) {
	h.t.Helper()
	testdb.Eventually(h.t, "an etcd leads", func() bool {
		for _, machine = range cluster.Databases {
			if h.etcdState(machine) == "StateLeader" {
				return true
			}
		}
		return false
	})
	return machine
}

// awaitEtcd waits until the etcd of a machine, which was killed, follows or leads again.
func (h *highlyAvailable) awaitEtcd(machine string) {
	h.t.Helper()
	testdb.Eventually(h.t, "the killed etcd is back", func() bool { return h.etcdState(machine) != "" })
	h.leaderOfEtcd()
}

// etcdState returns what etcd says about itself; "" when it does not answer.
func (h *highlyAvailable) etcdState(machine string) string {
	response, err := http.Get("http://" + h.Address(machine) + ":2379/v2/stats/self")
	if err != nil {
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	var self struct{ State string }
	_ = json.NewDecoder(response.Body).Decode(&self) // without it, State is empty
	return self.State
}

// keptNotes are the checkpoints that an auditor has fetched, each once.
type keptNotes struct {
	mu    sync.Mutex
	texts []string
}

// fetch fetches the checkpoints of replicas continuously.
func (k *keptNotes) fetch(t testing.TB, urls ...string) {
	for _, url := range urls {
		poll(t, url+"/ledger/checkpoint", 50*time.Millisecond, k.keep)
	}
}

// poll gets a page continuously, until the test ends, and passes on what succeeds.
func poll(t testing.TB, url string, pause time.Duration, take func(body string)) {
	client := Attach(url)
	client.http.Timeout = 2 * time.Second
	testdb.Background(t, func(ctx context.Context) {
		for ; ctx.Err() == nil; time.Sleep(pause) {
			if response, err := client.do(ctx, Request{}); err == nil && response.Status == http.StatusOK {
				take(string(response.Body))
			}
		}
	})
}

func (k *keptNotes) keep(text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.Contains(k.texts[max(0, len(k.texts)-20):], text) {
		k.texts = append(k.texts, text)
	}
}

// wantOneLog checks with the published tiles, as any auditor can, that every kept checkpoint has the signature of the
// ledger, and is of the tree that grew into the newest one.
func (k *keptNotes) wantOneLog(t testing.TB, base string) {
	t.Helper()
	_, keys := Get(t, base+"/ledger/key")
	verifier := testdb.Must(note.NewVerifier(strings.TrimSpace(keys)))(t)
	_, text := Get(t, base+"/ledger/checkpoint")
	k.keep(text)
	served := text
	newest := testdb.Must(ledger.ParseCheckpoint([]byte(served)))(t)
	reader := tlog.TileHashReader(newest.Tree, tiles{t, base})
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, text := range k.texts {
		if _, err := note.Open([]byte(text), note.VerifierList(verifier)); err != nil {
			t.Fatalf("a checkpoint does not verify: %v\n%s", err, text)
		}
		kept := testdb.Must(ledger.ParseCheckpoint([]byte(text)))(t)
		root, err := tlog.TreeHash(kept.Tree.N, reader)
		if err != nil || root != kept.Tree.Hash || kept.Origin != newest.Origin {
			t.Fatalf("a checkpoint that was published is not of the log: %v\n%s\nThe log has\n%s", err, text, served)
		}
	}
	t.Logf("%d checkpoints of up to %d events are of one log", len(k.texts), newest.Tree.N)
}

// tiles reads the tiles that a service publishes.
type tiles struct {
	t    testing.TB
	base string
}

func (tiles) Height() int { return 8 }

func (tiles) SaveTiles([]tlog.Tile, [][]byte) {}

func (s tiles) ReadTiles(wanted []tlog.Tile) (all [][]byte, err error) {
	for _, tile := range wanted {
		status, data := Get(s.t, s.base+"/ledger/"+strings.Replace(tile.Path(), "tile/8/", "tile/", 1))
		if status != http.StatusOK {
			err = errors.Join(err, fmt.Errorf("%s: %d", tile.Path(), status))
		}
		all = append(all, []byte(data))
	}
	return all, err
}

// moderated is a partner whose novels staff reject, with a webhook that gets these changes.
type moderated struct {
	*Partner
	staff    *Person
	rejected int
	hook     *httptest.Server

	mu   sync.Mutex
	took map[string]string // messages of the webhook by id
}

func newModerated(t testing.TB, h *highlyAvailable) *moderated {
	t.Helper()
	m := &moderated{Partner: newPartner(t, h.Postgres(cluster.Proxy)), took: map[string]string{}}
	m.Service = h.service()
	m.staff = m.Service.NewStaff(t)
	m.hook = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the sender was killed
		}
		m.mu.Lock()
		m.took[r.Header.Get("Webhook-Id")] = string(body)
		m.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(m.hook.Close)
	m.NewWebhook(t, m.hook.URL)
	return m
}

// work imports novels and rejects them, until stop is called. It repeats each command until it is acknowledged.
func (m *moderated) work(t testing.TB) (stop func()) {
	return testdb.Background(t, func(ctx context.Context) {
		for ; ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
			var made identifiers
			novel := m.until(t, m.Request(NovelsPath, Key(), Fields{"novel": Unique("Moderated")}.JSON(t)))
			if err := json.Unmarshal(novel.Body, &made); err != nil {
				t.Errorf("%v\n%s", err, novel.Body)
				return
			}
			path := "/api/admin/novels/" + made.NovelID.String() + "/reject"
			m.until(t, m.staff.Request(path, Key(), Fields{"reason": "no"}.JSON(t)))
			m.rejected++
		}
	})
}

// until repeats a command with its key until it is acknowledged.
func (m *moderated) until(t testing.TB, r Request) answer {
	for {
		a := m.Service.send(t, r)
		if a.succeeded() {
			return a
		}
		if a.err == nil && !a.unavailable() && !a.fromGateway() {
			t.Errorf("%s: %d\n%s", r.Path, a.Status, a.Body)
			return a
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// wantToldAll checks that the feed has each rejection, and the webhook got exactly the changes in the feed.
func (m *moderated) wantToldAll(t testing.TB) {
	t.Helper()
	testdb.Eventually(t, "the feed has every rejection, and the webhook got it", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.took) >= m.rejected && len(m.feed(t)) >= m.rejected
	})
	feed := m.feed(t)
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(feed) != m.rejected || len(m.took) != m.rejected {
		t.Errorf("%d novels were rejected, the feed has %d changes, the webhook got %d", m.rejected, len(feed), len(m.took))
	}
	for _, change := range feed {
		if !strings.Contains(m.took[change.ID], change.Cursor) {
			t.Errorf("the webhook got %q for %+v", m.took[change.ID], change)
		}
	}
}

// pulse measures the longest time without a success.
type pulse struct {
	mu      sync.Mutex
	last    time.Time
	longest time.Duration
}

// see sees the answers to commands.
func (p *pulse) see(a answer) {
	if a.succeeded() {
		p.beat()
	}
}

func (p *pulse) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.longest, p.last = max(p.longest, now.Sub(p.last)), now
}

// mark begins a measurement, at the last success.
func (p *pulse) mark() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.longest = 0
}

// since returns the longest time without a success since mark.
func (p *pulse) since() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.longest, time.Since(p.last)).Round(10 * time.Millisecond)
}

// read reads a page continuously.
func (p *pulse) read(t testing.TB, url string) {
	poll(t, url, 20*time.Millisecond, func(string) { p.beat() })
}

// between returns the sum of the stalls within a period.
func (s *stalls) between(from, to time.Time) (sum time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, stall := range s.list {
		if stall.from.After(from) && stall.from.Before(to) {
			sum += stall.took
		}
	}
	return sum
}
