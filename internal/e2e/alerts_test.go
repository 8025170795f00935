package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"novelgate/events/ledger/ledgertest"
	"novelgate/events/relay/relaytest"
	"novelgate/internal/testdb"
)

// monitored is a service that uses everything that an alert watches, on a server of its own.
type monitored struct {
	*Service

	database *server
	load     *load
	nats     *relaytest.Cluster
	witness  *ledgertest.Witness
	signer   string // the signer directory
	hooks    *Partner
	staff    *Person
	fails    atomic.Bool // the endpoints of its webhooks
	flags    []string
}

func startMonitored(t *testing.T) *monitored {
	t.Helper()
	const origin = "ledger.example/monitored"
	m := &monitored{
		database: startServer(t, nil), nats: relaytest.New(t, 1), witness: ledgertest.NewWitness(t, "w", origin),
		signer: filepath.Join(t.TempDir(), "signer"),
	}
	m.flags = append([]string{
		"--ops-listen", fmt.Sprint("127.0.0.1:", testdb.ReservePort(t)), "--relay", m.nats.URL(), "--relay-replicas", "1",
		"--ledger-origin", origin, "--ledger-witness", m.witness.URL.String(), "--ledger-witness-key", m.witness.VerifierKey,
		"--ledger-signer", m.signer, "--webhook-allow-cidr", "127.0.0.1/32",
	}, patient...)
	m.start(t)
	m.register(t)
	m.witness.Trust(t, origin, ledgerStatus(t, m.Service).VerifierKeys...)
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if m.fails.Load() {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	t.Cleanup(endpoint.Close)
	m.hooks, m.staff = m.NewPartner(t), m.NewStaff(t)
	for i := range 10 { // which fail as often in the scaled window as few do in the real one
		m.hooks.NewWebhook(t, fmt.Sprint(endpoint.URL, "/", i))
	}
	m.change(t)
	m.load = newLoad(t, newPartner(t, m.database.url()), m.Service)
	m.load.pause = 50 * time.Millisecond
	m.load.start(8)
	t.Cleanup(m.load.stop)
	return m
}

// start starts the service, also again at the same operators' address.
func (m *monitored) start(t *testing.T) {
	t.Helper()
	m.Service = serve(t, slowly(m.database.url()), m.flags...)
	m.awaitReady(t)
}

// change makes a change of which the webhooks are told.
func (m *monitored) change(t *testing.T) {
	t.Helper()
	novel := m.hooks.Upsert(t, Key(), Fields{"novel": Unique("Changed")}).WantNovel(t, 201)
	m.staff.Reject(t, novel.NovelID)
}

// TestAlertsOfHealthyServices: no alert fires under load, on an embedded database, and on a server with relay, witness
// and webhooks. A nearly full disk of the embedded database is the exception.
func TestAlertsOfHealthyServices(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	const minute = 3 * time.Second
	const scrapes = 80 // 20 s, as seven minutes
	t.Run("external", func(t *testing.T) {
		t.Parallel()
		m := startMonitored(t)
		startMonitor(t, m.OpsURL, minute).wantSilent(t, scrapes)
		wantCleanMetrics(t, m.Service)
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		dir := dataDir(t)
		// A small disk of its own, as far as the test is root.
		run := func(args ...string) error { return exec.Command(args[0], args[1:]...).Run() }
		mounted := run("mount", "-t", "tmpfs", "-o", "size=256m,mode=755", "tmpfs", dir) == nil
		if mounted {
			t.Cleanup(func() {
				testdb.Eventually(t, "the disk is unmounted", func() bool { return run("umount", dir) == nil })
			})
		}
		s := serveEmbedded(t, dir, patient...)
		p := demoPartner(t, s, dir)
		MustCLI(t, "", "integration", "limit", "demo", "--novels-per-minute", "100000", "--data-dir", dir)
		l := newLoad(t, p, s)
		l.pause = 50 * time.Millisecond
		l.start(8)
		t.Cleanup(l.stop)
		monitor := startMonitor(t, s.OpsURL, minute)
		monitor.wantSilent(t, scrapes)
		wantCleanMetrics(t, s)
		if !mounted {
			t.Skip("filling a disk needs the right to mount one")
		}
		l.stop()
		free := testdb.Must(strconv.ParseFloat(metric(s.metrics(t), "novelgate_disk_free_bytes"), 64))(t)
		junk := filepath.Join(dir, "junk")
		testdb.NoError(t, os.WriteFile(junk, make([]byte, int(free)-10<<20), 0o600))
		monitor.awaitFiring(t, "NovelgateDiskNearlyFull")
		testdb.NoError(t, os.Remove(junk))
		monitor.awaitSilence(t)
	})
}

// TestAlerts breaks a running service: the alerts of each fault fire, and end after the fault.
func TestAlerts(t *testing.T) {
	t.Parallel()
	const minute = 500 * time.Millisecond // of the rules
	m := startMonitored(t)
	url := m.database.url()
	monitor := startMonitor(t, m.OpsURL, minute)
	auditor := m.NewAuditor(t)
	awaitSigned(t, url)

	m.witness.Away(true)
	cosigned := m.witness.Tree(*ledgerStatus(t, m.Service).Origin).N
	testdb.Eventually(t, "the witness lacks a checkpoint", func() bool {
		return value[int64](t, url, `SELECT max(tree_size) FROM ledger_checkpoints`) > cosigned
	})
	id := filepath.Join(m.signer, "id")
	own := testdb.Must(os.ReadFile(id))(t)
	testdb.NoError(t, os.WriteFile(id, []byte(uuid.NewString()), 0o600))
	m.nats.Stop(0)
	m.fails.Store(true)
	m.change(t)
	execute(t, url, `ALTER TABLE novels RENAME TO novels_away`, `ALTER TABLE access_log RENAME TO access_log_away`,
		`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(1.5); RETURN NULL; END'`,
		`CREATE TRIGGER slow AFTER INSERT ON events FOR EACH STATEMENT EXECUTE FUNCTION slow()`,
		`UPDATE ledger_state SET verified_at = now() - interval '9 days'`)
	if a := m.send(t, Request{Path: "/api/events", Bearer: auditor.APIKey}); a.Status != http.StatusInternalServerError {
		t.Fatalf("%d, %v", a.Status, a.err)
	}
	poisoned := poison(t, url, "post.imported.v1", `{`+postBody+`,"parentPostId":"nonsense"}`)
	monitor.awaitFiring(t, "NovelgateWitnessLags", "NovelgateSigningRefused", "NovelgateNobodySigns", "NovelgateRelayLags",
		"NovelgateWebhooksFail", "NovelgateProjectionRetries", "NovelgateInternalErrors", "NovelgateCommandsAreSlow",
		"NovelgateNotVerified", "NovelgateProjectionFailed", "NovelgateProjectionLags")
	for _, command := range []string{"ledger status", "doctor"} {
		out := m.CLI(t, strings.Fields(command)...)
		if !strings.Contains(out.Stdout, "not signed: ") || !strings.Contains(out.Stdout, "signs this origin") {
			t.Errorf("%s does not say why nobody signs:\n%s", command, out.Stdout)
		}
	}

	execute(t, url, `DROP TRIGGER slow ON events`, `ALTER TABLE access_log_away RENAME TO access_log`,
		`ALTER TABLE novels_away RENAME TO novels`)
	m.MustCLI(t, "events", "verify", "--no-projections") // before the repair, which changes a sealed event
	repairPost(t, url, poisoned)
	for _, projection := range postReaders() {
		m.MustCLI(t, "projection", "retry", projection)
	}
	m.fails.Store(false)
	m.nats.Start(0)
	testdb.NoError(t, os.WriteFile(id, own, 0o600))
	m.witness.Away(false)
	monitor.awaitSilence(t)

	m.database.crash(t)
	monitor.awaitFiring(t, "NovelgateNotReady", "NovelgateUnavailable")
	m.database.start(t)
	monitor.awaitSilence(t)

	m.kill()
	monitor.awaitFiring(t, "NovelgateIsAway")
	m.start(t)
	monitor.awaitSilence(t)
}
