//go:build chaos

package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"novelgate/events/relay"
	"novelgate/events/relay/relaytest"
	"novelgate/internal/cluster"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

// clusterFault is what happens to a cluster.
type clusterFault struct {
	name   string
	limit  time.Duration // without an acknowledged command
	strike func(h *highlyAvailable, dice *rand.Rand) (heal func())
}

const (
	crash = 5 * time.Second
	lost  = 30 * time.Second // ttl of 20 s, and the promotion
)

var clusterFaults = []clusterFault{
	{"primary killed", crash, func(h *highlyAvailable, _ *rand.Rand) func() {
		kill(h.t, h.Postmaster(h.with(cluster.Leader)), syscall.SIGKILL)
		return func() {}
	}},
	{"primary's machine frozen", lost, func(h *highlyAvailable, _ *rand.Rand) func() {
		return h.freeze(h.with(cluster.Leader))
	}},
	{"primary cut off", lost, func(h *highlyAvailable, _ *rand.Rand) func() {
		return h.cutOff(h.with(cluster.Leader))
	}},
	{"switchover", crash, func(h *highlyAvailable, _ *rand.Rand) func() {
		h.switchOver(h.with(cluster.Leader))
		return func() {}
	}},
	{"standby stopped", crash, func(h *highlyAvailable, _ *rand.Rand) func() {
		standby := h.Part(h.with("sync_standby"), "patroni")
		standby.Stop()
		return standby.Start
	}},
	{"standby's machine frozen", lost, func(h *highlyAvailable, _ *rand.Rand) func() {
		return h.freeze(h.with("sync_standby"))
	}},
	{"etcd's leader killed", crash, func(h *highlyAvailable, _ *rand.Rand) func() {
		leader := h.leaderOfEtcd()
		kill(h.t, h.Part(leader, "etcd").PID(), syscall.SIGKILL)
		return func() { h.awaitEtcd(leader) }
	}},
	{"replica killed", crash, func(h *highlyAvailable, dice *rand.Rand) func() {
		kill(h.t, h.Part([]string{cluster.R1, cluster.R2}[dice.IntN(2)], "novelgate").PID(), syscall.SIGKILL)
		return func() {}
	}},
}

// switchOver orders a switchover, as operators do.
func (h *highlyAvailable) switchOver(leader string) {
	h.t.Helper()
	request := testdb.Must(http.NewRequestWithContext(h.t.Context(), http.MethodPost,
		"http://"+h.Address(leader)+":8008/switchover", strings.NewReader(fmt.Sprintf(`{"leader": %q}`, leader))))(h.t)
	request.SetBasicAuth("patroni", h.Password)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		h.t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		h.t.Errorf("the switchover is answered with %s", response.Status)
	}
}

// TestChaosOfACluster breaks deploy/cluster under load, ROUNDS times with each fault, in a random order and at random
// moments; SEED repeats them. SLACK multiplies the limits of outages, for busy machines. After each fault nothing that
// was acknowledged is lost or doubled, the tables equal a replay, all checkpoints that an auditor kept are of one log,
// and the relay's streams and a webhook have this log and no other. Nothing is repaired by hand.
func TestChaosOfACluster(t *testing.T) {
	rounds, seed := scaled(t, "ROUNDS", 1), scaled(t, "SEED", rand.IntN(1_000_000))
	dice := rand.New(rand.NewPCG(uint64(seed), 0))
	t.Logf("SEED=%d", seed)
	outages, unread := map[string][]time.Duration{}, map[string][]time.Duration{}
	for round := range rounds {
		t.Run(fmt.Sprint("round ", round+1), func(t *testing.T) { breakCluster(t, dice, round, outages, unread) })
		if t.Failed() {
			break
		}
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "fault\ttimes\tmedian\tworst\tlimit\tpages: median\tworst")
	for _, f := range clusterFaults {
		if took, pages := outages[f.name], unread[f.name]; len(took) > 0 {
			slices.Sort(took)
			slices.Sort(pages)
			_, _ = fmt.Fprintf(w, "%s\t%d\t%.1f s\t%.1f s\t%.0f s\t%.1f s\t%.1f s\n", f.name, len(took),
				took[len(took)/2].Seconds(), took[len(took)-1].Seconds(), f.limit.Seconds(),
				pages[len(pages)/2].Seconds(), pages[len(pages)-1].Seconds())
		}
	}
	_ = w.Flush() // into memory
	t.Logf("longest time without an acknowledged command, and without a page:\n%s", &table)
}

// breakCluster starts a cluster and breaks it with each fault.
func breakCluster(t *testing.T, dice *rand.Rand, round int, outages, unread map[string][]time.Duration) {
	h := startCluster(t, round+1)
	audit, stalls, m := &keptNotes{}, watchStalls(t), newModerated(t, h)
	replicas := []string{"http://" + h.Address(cluster.R1) + ":8080", "http://" + h.Address(cluster.R2) + ":8080"}
	audit.fetch(t, replicas...)
	pages := &pulse{last: time.Now()}
	pages.read(t, h.URL()+"/")
	var loads []*load
	for _, i := range dice.Perm(len(clusterFaults)) {
		f := clusterFaults[i]
		l, p := newLoad(t, newPartner(t, h.Postgres(cluster.Proxy)), h.service()), &pulse{last: time.Now()}
		l.stubborn, l.gateway, l.pause, l.watch = true, true, 20*time.Millisecond, p.see
		l.start(8)
		moderated := m.work(t)
		l.await(50)
		time.Sleep(time.Duration(dice.IntN(2000)) * time.Millisecond) // a random moment
		p.mark()
		pages.mark()
		began := time.Now()
		heal := f.strike(h, dice)
		l.await(100)
		outage := p.since()
		heal()
		h.awaitHealthy()
		l.await(100)
		outage = max(outage, p.since())
		t.Logf("%s %s: %v without an acknowledged command, %v without a page, healthy after %v; stalls of this process %v",
			began.Format(time.TimeOnly), f.name, outage, pages.since(), time.Since(began).Round(100*time.Millisecond),
			stalls.between(began, time.Now()).Round(10*time.Millisecond))
		outages[f.name], unread[f.name] = append(outages[f.name], outage), append(unread[f.name], pages.since())
		if limit := f.limit * time.Duration(scaled(t, "SLACK", 1)); outage > limit {
			t.Errorf("%s: %v without an acknowledged command, the limit is %v", f.name, outage, limit)
		}
		moderated()
		l.stop()
		loads = append(loads, l)
		h.wantSound(l, m, audit)
		if t.Failed() {
			return
		}
	}
	for _, l := range loads { // a later fault has not undone what an earlier load was told
		l.reconcile(h.service(), h.Postgres(cluster.Proxy))
	}
	MustCLI(t, h.Postgres(cluster.Proxy), "events", "verify")
}

// wantSound checks everything that must be true after a fault.
func (h *highlyAvailable) wantSound(l *load, m *moderated, audit *keptNotes) {
	h.t.Helper()
	url, service := h.Postgres(cluster.Proxy), h.service()
	l.settle(service, url)
	awaitSigned(h.t, url)
	count := value[int](h.t, url, `SELECT count(*) FROM events`)
	m.wantToldAll(h.t)
	pool := testdb.Must(database.OpenHistory(h.t.Context(), url))(h.t)
	defer pool.Close()
	testdb.Eventually(h.t, "everything is relayed", func() bool {
		stream, err := h.js.Stream(h.t.Context(), relay.StreamName(
			value[string](h.t, url, `SELECT origin FROM ledger_origins ORDER BY ordinal DESC LIMIT 1`)))
		return err == nil && stream.CachedInfo().State.LastSeq == uint64(count) //nolint:gosec // a count
	})
	relaytest.WantLog(h.t, h.js, pool)
	audit.wantOneLog(h.t, service.URL)
}
