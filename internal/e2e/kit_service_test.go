package e2e_test

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"novelgate/internal/testdb"
)

// patience limits waits in tests, also on a busy machine. It is not a promise of the service.
const patience = testdb.Patience

// Service is one running `novelgate serve`.
type Service struct {
	*process           // nil for a service that was not started here
	URL         string // of --listen, without a trailing slash
	OpsURL      string // of --ops-listen, likewise
	DatabaseURL string

	registrar sync.Once // guards registers
	registers *Person   // who registers partners

	http  *http.Client
	heard *testdb.Log // records answers and the output of commands, unless nil
}

// Attach returns a client of a running service.
func Attach(url string) *Service {
	return &Service{URL: url, http: &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 64, ExpectContinueTimeout: patience},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // there are none
	}}
}

// publicURL is the prefix of URLs in answers of all replicas of a chaos test.
const publicURL = "https://platform.example"

var (
	patient = []string{"--request-timeout", "30s"} // allows long requests
	unsafe  = []string{"--allow-unsafe-durability"}
	chaos   = []string{"--public-url", publicURL, "--log-level", "debug"}
)

// Start runs the service on a database whose server may lose commits, with long time-outs for a busy machine, and waits
// until it listens. The service is stopped when the test ends.
func Start(t testing.TB, databaseURL string, flags ...string) *Service {
	t.Helper()
	s := start(t, slices.Concat([]string{"--database-url", databaseURL}, unsafe, patient, flags)...)
	s.DatabaseURL = databaseURL
	t.Cleanup(func() {
		if !s.killed {
			s.Stop(t)
		}
	})
	return s
}

// serve starts a service of a chaos test, with default settings except the addresses, and waits until it listens. It is
// killed when the test ends.
func serve(t testing.TB, databaseURL string, flags ...string) *Service {
	t.Helper()
	testdb.SkipShort(t)
	s := start(t, slices.Concat([]string{"--database-url", databaseURL}, chaos, flags)...)
	s.DatabaseURL = databaseURL
	return s
}

// servePatiently is serve with long time-outs, for tests without time limits on machines that stall for seconds.
func servePatiently(t testing.TB, databaseURL string, flags ...string) *Service {
	t.Helper()
	return serve(t, slowly(databaseURL), slices.Concat(patient, flags)...)
}

// slowly allows long connection times.
func slowly(databaseURL string) string {
	separator := "?"
	if strings.Contains(databaseURL, "?") {
		separator = "&"
	}
	return databaseURL + separator + "connect_timeout=30"
}

func start(t testing.TB, flags ...string) *Service {
	t.Helper()
	// Not t.TempDir: a shared service outlives the test that starts it.
	dir := testdb.Must(os.MkdirTemp("", "novelgate-e2e-"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := Attach("")
	t.Cleanup(s.http.CloseIdleConnections)
	s.process = launch(t, slices.Concat([]string{
		"serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--data-dir", dir,
	}, flags)...)
	s.URL = strings.TrimRight(s.line(t, "Novelgate is listening on "), "/")
	s.OpsURL = strings.TrimRight(s.line(t, "Operations (metrics, health, pprof) on "), "/")
	return s
}

// Stop sends SIGTERM unless the service has ended, and expects exit code 0.
func (s *Service) Stop(t testing.TB) {
	t.Helper()
	s.http.CloseIdleConnections()
	select {
	case <-s.exited:
	default:
		s.signal(t, syscall.SIGTERM)
	}
	if code := s.wait(t); code != 0 {
		t.Errorf("the service ended with %d, want 0\n%s", code, lastLines(s.stderr.String(), 12))
	}
}

// wantRefusedStart checks that the service refuses to start: it ends with exit code 1, never listens, and its last line
// has all the words. A word that begins with "novelgate: " is the whole line.
func wantRefusedStart(t *testing.T, words []string, flags ...string) {
	t.Helper()
	p := launch(t, slices.Concat([]string{
		"serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--data-dir", t.TempDir(),
	}, flags)...)
	if code := p.wait(t); code != 1 || strings.Contains(p.stdout.String(), "Novelgate is listening") {
		t.Errorf("%v: exit code %d, want 1\n%s", flags, code, p.stdout)
	}
	last := strings.TrimSpace(lastLines(p.stderr.String(), 1))
	for _, word := range words {
		if !strings.Contains(last, word) || strings.HasPrefix(word, "novelgate: ") && last != word {
			t.Errorf("%v: refused with\n%s\nwant\n%s", flags, p.stderr, word)
		}
	}
}

// said returns the newest lines of the log.
func (s *Service) said() string {
	if s.process == nil {
		return ""
	}
	return lastLines(s.stderr.String(), 100)
}

// awaitReady waits until the service is ready. A single look may find a busy database that has not answered within a
// second.
func (s *Service) awaitReady(t testing.TB) {
	t.Helper()
	testdb.Eventually(t, "/readyz is 200", func() bool {
		status, _ := Get(t, s.OpsURL+"/readyz")
		return status == http.StatusOK
	})
}

// metrics scrapes the service and checks for secrets.
func (s *Service) metrics(t testing.TB) string {
	t.Helper()
	status, body := Get(t, s.OpsURL+"/metrics")
	if status != http.StatusOK {
		t.Errorf("/metrics is %d, want 200", status)
	}
	wantNoSecret(t, "/metrics", []byte(body))
	return body
}

// metric returns the value of a metric without labels.
func metric(text, name string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(rest)
		}
	}
	return "absent"
}

// shared is the service that tests share. The first test starts it and the last one stops it, so that nothing outlives
// the tests, also when only one of them runs.
var shared struct {
	mu      sync.Mutex
	users   int
	life    *lifetime
	service *Service
}

// Shared returns a service with its own database, shared with all other tests that call Shared. Tests are isolated by
// their own integrations, unique titles, and very high limits.
func Shared(t testing.TB) *Service {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.users == 0 {
		shared.life, shared.service = &lifetime{TB: t}, nil
		defer func() {
			if shared.service == nil { // Start has failed and is unwinding
				shared.life.end(t)
			}
		}()
		shared.service = Start(shared.life, testdb.New(shared.life))
	}
	shared.users++
	service := shared.service
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the newest lines of the shared service's log:\n%s", service.said())
		}
		shared.mu.Lock()
		defer shared.mu.Unlock()
		if shared.users--; shared.users == 0 {
			shared.life.end(t)
		}
	})
	return service
}

// lifetime is a testing.TB whose cleanups run when end is called, instead of at the end of a test.
type lifetime struct {
	testing.TB
	cleanups []func()
}

// Cleanup registers f to run at end, last one first.
func (l *lifetime) Cleanup(f func()) { l.cleanups = append(l.cleanups, f) }

// end runs the cleanups on behalf of t.
func (l *lifetime) end(t testing.TB) {
	l.TB = t
	for _, f := range slices.Backward(l.cleanups) {
		f()
	}
}

// awaitSigned waits until the ledger covers the events that are there now.
func awaitSigned(t testing.TB, databaseURL string) {
	t.Helper()
	events := value[int64](t, databaseURL, `SELECT count(*) FROM public.events`)
	testdb.Eventually(t, "the ledger is signed", func() bool {
		return value[int64](t, databaseURL, `SELECT coalesce(max(tree_size), 0) FROM public.ledger_checkpoints`) >= events
	})
}
