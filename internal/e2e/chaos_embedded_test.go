package e2e_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"novelgate/internal/testdb"
)

// serveEmbedded is serve on the embedded database in dir.
func serveEmbedded(t testing.TB, dir string, flags ...string) *Service {
	t.Helper()
	return start(t, slices.Concat([]string{"--data-dir", dir}, chaos, flags)...)
}

// demoPartner reads the key of the demo integration from the output of a first start, and raises its limit.
func demoPartner(t testing.TB, r *Service, dir string) *Partner {
	t.Helper()
	r.line(t, "Send it again")
	for text := range strings.Lines(r.stdout.String()) {
		if key := strings.TrimSpace(text); strings.HasPrefix(key, "ngp_") {
			MustCLI(t, "", "integration", "limit", "demo", "--posts-per-minute", "100000", "--data-dir", dir)
			return &Partner{caller: caller{APIKey: key, Service: r}}
		}
	}
	t.Fatalf("a first start shows no API key:\n%s", r.stdout)
	return nil
}

// TestEmbeddedKilled kills the service together with the embedded database and starts both again, and then PostgreSQL
// alone, which the running service starts again. Nothing is lost, and requests are answered in time.
func TestEmbeddedKilled(t *testing.T) {
	dir := dataDir(t)
	service := serveEmbedded(t, dir)
	p := demoPartner(t, service, dir)
	firstComment := comment("Embedded", "reader", "first")
	first := p.importUntilAccepted(t, "first", firstComment)
	service.kill()
	service = serveEmbedded(t, dir)
	if said := service.stdout.String(); strings.Contains(said, "ngp_") || strings.Contains(said, "Send it again") {
		t.Errorf("a later start shows the demo again:\n%s", said)
	}
	p.Service = service
	if again := p.importUntilAccepted(t, "first", firstComment); again.PostID != first.PostID || again.Created {
		t.Errorf("after kill -9 the comment is %+v, want %+v", again, first)
	}

	machine, killed, began := watchStalls(t), postmaster(t, dir), time.Now()
	kill(t, killed, syscall.SIGKILL)
	testdb.Eventually(t, "the service has started its database again", func() bool {
		sent := time.Now()
		response := p.Import(t, "first", firstComment)
		if took := time.Since(sent); machine.late(sent, took) {
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
	t.Logf("the database was back after %v", time.Since(began))
	p.importUntilAccepted(t, Key(), comment("Embedded", "reader", "later"))
	service.metrics(t)
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
	p := demoPartner(t, owner, dir)
	listed := MustCLI(t, "", "integration", "list", "--data-dir", dir, "--json")
	if !strings.Contains(listed.Stdout, `"demo"`) {
		t.Errorf("integration list prints %s", listed.Stdout)
	}
	MustCLI(t, "", "migrate", "--data-dir", dir, "--json")
	wantRefusedStart(t, []string{"in use by another process", "--database-url"}, "--data-dir", dir)
	p.Import(t, "first", comment("Embedded", "reader", "first")).WantPost(t, 201)
}

// TestForcedStopIsShown: a command that has started the embedded database says when it had to stop it by force. Here an
// archiver does not end.
func TestForcedStopIsShown(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	MustCLI(t, "", "migrate", "--data-dir", dir)
	settings := filepath.Join((&server{dir: dir}).cluster(t), "postgresql.auto.conf")
	const archiver = "archive_mode = on\narchive_command = 'sleep 600'\n"
	if err := os.WriteFile(settings, []byte(archiver), 0o600); err != nil {
		t.Fatal(err)
	}
	out := MustCLI(t, "", "migrate", "--data-dir", dir)
	if !strings.Contains(out.Stderr, "the embedded database did not stop cleanly") {
		t.Errorf("standard error: %s", out.Stderr)
	}
}
