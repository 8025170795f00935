package e2e_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"novelgate/internal/testdb"
)

// demoPartner reads the key of the demo integration from the output of a first start.
func demoPartner(t testing.TB, r *Service) *Partner {
	t.Helper()
	r.line(t, "Send it again")
	for text := range strings.Lines(r.stdout.String()) {
		if key := strings.TrimSpace(text); strings.HasPrefix(key, "ngp_") {
			return &Partner{NewIntegration: NewIntegration{APIKey: key}, Service: r}
		}
	}
	t.Fatalf("a first start shows no API key:\n%s", r.stdout)
	return nil
}

// raiseLimit lets the demo integration send many comments a minute.
func raiseLimit(t testing.TB, dir string) {
	t.Helper()
	MustCLI(t, "", "integration", "limit", "demo", "--posts-per-minute", "100000", "--data-dir", dir)
}

// wantNoDemo checks that standard output has only addresses.
func wantNoDemo(t testing.TB, r *Service) {
	t.Helper()
	if said := strings.TrimSpace(r.stdout.String()); strings.Count(said, "\n") != 1 {
		t.Errorf("a later start says more than its addresses:\n%s", said)
	}
}

func wantPostgresLogClean(t testing.TB, dir string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "pg*", "log", "*.log"))
	if err != nil || len(logs) == 0 {
		t.Errorf("the logs of PostgreSQL: %v, %v", logs, err)
	}
	for _, log := range logs {
		wantNoSecret(t, log, testdb.Must(os.ReadFile(log))(t))
	}
}

// importUntilAccepted sends a comment until it is accepted, because a request may time out on a busy machine.
func importUntilAccepted(t testing.TB, p *Partner, key string, fields Fields) (post Post) {
	t.Helper()
	testdb.Eventually(t, "a comment is taken", func() bool {
		switch response := p.Import(t, key, fields); response.Status {
		case http.StatusServiceUnavailable:
			return false
		case http.StatusOK: // an attempt before has stored it
			post = response.WantPost(t, http.StatusOK)
		default:
			post = response.WantPost(t, http.StatusCreated)
		}
		return true
	})
	return post
}

func plantedComment(unique string) Fields { return comment("Embedded", "reader", unique) }

// TestEmbeddedKilledWithItsService kills the service together with the embedded database, and starts both again.
func TestEmbeddedKilledWithItsService(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	service := serveEmbedded(t, dir, patient...)
	p := demoPartner(t, service)
	firstComment := plantedComment("first")
	first := p.Import(t, "first", firstComment).WantPost(t, 201)
	for range 2 {
		began := time.Now()
		service.kill()
		service = serveEmbedded(t, dir, patient...)
		took := time.Since(began)
		wantNoDemo(t, service)
		p.Service = service
		again := p.Import(t, "first", firstComment)
		again.WantReplayed(t, true, false)
		if got := again.WantPost(t, 200); got.PostID != first.PostID || got.ThreadID != first.ThreadID ||
			got.URL != first.URL {
			t.Errorf("after kill -9 the comment is %+v, want %+v", got, first)
		}
		p.Import(t, Key(), plantedComment("later")).WantPost(t, 201)
		t.Logf("from kill -9 to listening again: %v", took)
	}
	wantPostgresLogClean(t, dir)
}

// TestEmbeddedServerKilledAlone kills the embedded PostgreSQL of a running service.
func TestEmbeddedServerKilledAlone(t *testing.T) {
	dir := dataDir(t)
	service := serveEmbedded(t, dir)
	p := demoPartner(t, service)
	raiseLimit(t, dir) // also an answer of 503 may take a permit
	firstComment := plantedComment("first")
	first := importUntilAccepted(t, p, "first", firstComment)
	machine := watchStalls(t)
	for range 2 {
		killed := postmaster(t, dir)
		if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var slowest time.Duration
		testdb.Eventually(t, "the service has started its database again", func() bool {
			sent := time.Now()
			response := p.Import(t, "first", firstComment)
			took := time.Since(sent)
			slowest = max(slowest, took)
			if machine.late(answer{sent: sent, took: took}) {
				t.Errorf("a request took %v, the promise is %v", took, promised)
			}
			if response.Status == http.StatusServiceUnavailable {
				response.WantProblem(t, 503, "unavailable")
				return false
			}
			if got := response.WantPost(t, 200); got.PostID != first.PostID {
				t.Errorf("the comment is %+v, want %+v", got, first)
			}
			pid, ready := livingPostmaster(dir) // a surviving backend may have answered
			return ready && pid != killed
		})
		importUntilAccepted(t, p, Key(), plantedComment("later"))
		t.Logf("the database was back after %v; the slowest answer took %v", time.Since(began), slowest)
	}
	wantNoSecret(t, "the metrics", []byte(service.metrics(t)))
	service.Stop(t)
	if pid, _ := livingPostmaster(dir); pid != 0 {
		t.Errorf("the embedded database has outlived the service as process %d", pid)
	}
	wantPostgresLogClean(t, dir)
}

// TestEmbeddedServerIsFound runs staff commands beside the owner of the embedded database, and a second service, which
// is refused.
func TestEmbeddedServerIsFound(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	refused := RunCLI(t, "", "integration", "list", "--data-dir", dir)
	if refused.Code != 1 || !strings.Contains(refused.Stderr, "novelgate serve") {
		t.Errorf("without a server a command ends with %d and says %q, want 1 and what to do", refused.Code, refused.Stderr)
	}
	owner := serveEmbedded(t, dir, patient...)
	p := demoPartner(t, owner)
	listed := RunCLI(t, "", "integration", "list", "--data-dir", dir, "--json")
	var integrations []Integration
	if err := json.Unmarshal([]byte(listed.Stdout), &integrations); err != nil || len(integrations) != 1 ||
		integrations[0].Name != "demo" {
		t.Fatalf("integration list ends with %d and prints %s%s, want the demo integration (%v)", listed.Code, listed.Stdout,
			listed.Stderr, err)
	}
	raiseLimit(t, dir)
	migrated := RunCLI(t, "", "migrate", "--data-dir", dir, "--json")
	if migrated.Code != 0 {
		t.Errorf("migrate beside a running service ends with %d\n%s", migrated.Code, migrated.Stderr)
	}

	second := RunCLI(t, "", "serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--data-dir", dir)
	if second.Code != 1 || !strings.Contains(second.Stderr, "in use by another process") ||
		!strings.Contains(second.Stderr, "--database-url") {
		t.Errorf("a second service ends with %d and says %q", second.Code, second.Stderr)
	}
	p.Import(t, "first", plantedComment("first")).WantPost(t, 201)
}

// TestForcedStopIsShown: a command that has started the embedded database says when it had to stop it by force. Here an
// archiver does not end.
func TestForcedStopIsShown(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	MustCLI(t, "", "migrate", "--data-dir", dir)
	settings, err := filepath.Glob(filepath.Join(dir, "pg*", "postgresql.auto.conf"))
	if err != nil || len(settings) != 1 {
		t.Fatalf("settings: %v, %v", settings, err)
	}
	const archiver = "archive_mode = on\narchive_command = 'sleep 600'\n"
	if err := os.WriteFile(settings[0], []byte(archiver), 0o600); err != nil {
		t.Fatal(err)
	}
	out := MustCLI(t, "", "migrate", "--data-dir", dir)
	if !strings.Contains(out.Stderr, "the embedded database did not stop cleanly") {
		t.Errorf("standard error: %s", out.Stderr)
	}
}
