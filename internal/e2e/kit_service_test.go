package e2e_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"novelgate/internal/testdb"
)

// patience limits waits in tests, also on a busy machine. It is not a promise of the service.
const patience = testdb.Patience

// process is one run of the program.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr *Capture
	exited         chan struct{} // closed when the process has ended
	killed         bool
}

// launch starts novelgate like launchProgram.
func launch(t testing.TB, args ...string) *process {
	t.Helper()
	return launchProgram(t, Binary(t), args...)
}

// launchProgram starts a program in an environment without settings of the service. When the test ends, the program is
// killed, and its standard error must not contain a secret.
func launchProgram(t testing.TB, program string, args ...string) *process {
	t.Helper()
	p := &process{
		cmd:    exec.CommandContext(context.Background(), program, args...),
		stdout: &Capture{}, stderr: &Capture{}, exited: make(chan struct{}),
	}
	for _, setting := range os.Environ() {
		if !strings.HasPrefix(setting, "NOVELGATE_") && !strings.HasPrefix(setting, "DATABASE_URL=") {
			p.cmd.Env = append(p.cmd.Env, setting)
		}
	}
	p.cmd.Stdout, p.cmd.Stderr = p.stdout, p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start novelgate %s: %v", strings.Join(args, " "), err)
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // see ProcessState
	}()
	t.Cleanup(func() {
		p.kill()
		said := p.stderr.String()
		wantNoSecret(t, "standard error of novelgate "+args[0], []byte(said))
		for _, disaster := range []string{"DATA RACE", "panic"} {
			if at := strings.Index(said, disaster); at >= 0 {
				t.Errorf("novelgate %s: %.4000s", args[0], said[max(0, at-200):])
			}
		}
		if t.Failed() {
			t.Logf("novelgate %s said at last:\n%s", strings.Join(args, " "), lastLines(said, 12))
		}
	})
	return p
}

// kill sends SIGKILL and waits for the end.
func (p *process) kill() {
	p.killed = true
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.exited
}

func (p *process) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Errorf("send %v: %v", signal, err)
	}
}

// wait returns the exit code. It fails the test when the process does not end.
func (p *process) wait(t testing.TB) int {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		t.Fatalf("the process has not ended within %v\n%s", patience, lastLines(p.stderr.String(), 12))
	}
	return p.cmd.ProcessState.ExitCode()
}

// line waits for a line on standard output that begins with prefix and returns the rest of it.
func (p *process) line(t testing.TB, prefix string) (rest string) {
	t.Helper()
	testdb.Eventually(t, "the process says "+prefix, func() bool {
		select {
		case <-p.exited:
			t.Fatalf("the process ended with %d before it said %q\n%s", p.cmd.ProcessState.ExitCode(), prefix, p.stderr)
		default:
		}
		for text := range strings.Lines(p.stdout.String()) {
			var found bool
			if rest, found = strings.CutPrefix(text, prefix); found && strings.HasSuffix(rest, "\n") {
				rest = strings.TrimSpace(rest)
				return true
			}
		}
		return false
	})
	return rest
}

func lastLines(text string, n int) string {
	lines := strings.SplitAfter(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n-1):], "")
}

// Service is one running `novelgate serve`.
type Service struct {
	*process           // nil for a service that was not started here
	URL         string // of --listen, without a trailing slash
	OpsURL      string // of --ops-listen, likewise
	DatabaseURL string

	registrar sync.Once // guards registers
	registers *Person   // who registers partners

	http *http.Client
}

// Attach returns a client of a running service.
func Attach(url string) *Service {
	return &Service{URL: url, http: &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 64, ExpectContinueTimeout: patience},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // there are none
		Timeout:       patience,
	}}
}

// patient allows long requests.
var patient = []string{"--request-timeout", "30s"}

// publicURL is the prefix of URLs in answers of all replicas.
const publicURL = "https://platform.example"

// Start runs the service on a database whose server may lose commits, with long time-outs for a busy machine, and waits
// until it listens. The service is stopped when the test ends.
func Start(t testing.TB, databaseURL string, flags ...string) *Service {
	t.Helper()
	s := start(t, slices.Concat([]string{
		"--database-url", databaseURL, "--allow-unsafe-durability",
	}, patient, flags)...)
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
	s := start(t, append([]string{"--database-url", databaseURL, "--public-url", publicURL, "--log-level", "debug"},
		flags...)...)
	s.DatabaseURL = databaseURL
	return s
}

// serveEmbedded does the same on the embedded database in dir.
func serveEmbedded(t testing.TB, dir string, flags ...string) *Service {
	t.Helper()
	return start(t, append([]string{"--data-dir", dir, "--public-url", publicURL, "--log-level", "debug"}, flags...)...)
}

func start(t testing.TB, flags ...string) *Service {
	t.Helper()
	// Not t.TempDir: a shared service outlives the test that starts it.
	dir, err := os.MkdirTemp("", "novelgate-e2e-")
	if err != nil {
		t.Fatalf("make data directory: %v", err)
	}
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

// said returns the newest lines of the log.
func (s *Service) said() string {
	if s.process == nil {
		return ""
	}
	return lastLines(s.stderr.String(), 100)
}

// awaitReady waits until the service is ready, and returns what it says. A single look may find a busy database that
// has not answered within a second.
func (s *Service) awaitReady(t testing.TB) (body string) {
	t.Helper()
	testdb.Eventually(t, "/readyz is 200", func() bool {
		var status int
		status, body = Get(t, s.OpsURL+"/readyz")
		return status == http.StatusOK
	})
	return body
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

// shared is the lease of the service that tests share. The first test starts the service and the last one stops it, so
// that nothing outlives the tests, also when only one of them runs.
var shared lease

type lease struct {
	mu      sync.Mutex
	users   int
	life    *lifetime
	service *Service
}

// Shared returns a service with its own database, shared with all other tests that call Shared. Tests are isolated by
// their own integrations, unique titles, and very high limits.
func Shared(t testing.TB) *Service {
	t.Helper()
	lease := &shared
	lease.mu.Lock()
	defer lease.mu.Unlock()
	if lease.users == 0 {
		lease.life = &lifetime{TB: t}
		defer func() {
			if lease.service == nil { // Start has failed and is unwinding
				lease.life.end(t)
			}
		}()
		lease.service = Start(lease.life, testdb.New(lease.life))
	}
	lease.users++
	service := lease.service
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the newest lines of the shared service's log:\n%s", service.said())
		}
		lease.leave(t)
	})
	return service
}

func (l *lease) leave(t testing.TB) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users--
	if l.users == 0 {
		l.service = nil
		l.life.end(t)
	}
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
	for len(l.cleanups) > 0 {
		last := len(l.cleanups) - 1
		f := l.cleanups[last]
		l.cleanups = l.cleanups[:last]
		f()
	}
}

// awaitSealed waits until the ledger has signed all events, or that there are none.
func awaitSealed(t testing.TB, databaseURL string) {
	t.Helper()
	testdb.Eventually(t, "everything is sealed and signed", func() bool {
		return value[bool](t, databaseURL, `SELECT coalesce((SELECT count(*) FROM public.events) =
			(SELECT max(tree_size) FROM public.ledger_checkpoints), false)`)
	})
}

// awaitSigned waits until the ledger covers the events that are there now.
func awaitSigned(t testing.TB, s *Service) {
	t.Helper()
	events := value[int64](t, s.DatabaseURL, `SELECT count(*) FROM events`)
	testdb.Eventually(t, "the ledger is signed", func() bool {
		return value[int64](t, s.DatabaseURL, `SELECT coalesce(max(tree_size), 0) FROM ledger_checkpoints`) >= events
	})
}

// Projected polls the analytics tables until the query returns a row, and scans it into into. It waits long: other
// tests' transactions in the same PostgreSQL delay projections.
func (s *Service) Projected(t testing.TB, into []any, query string, args ...any) {
	t.Helper()
	ctx := context.Background()
	connection := testdb.Connect(t, s.DatabaseURL)
	testdb.Eventually(t, query, func() bool {
		err := connection.QueryRow(ctx, query, args...).Scan(into...)
		switch {
		case err == nil:
			return true
		case errors.Is(err, pgx.ErrNoRows):
			return false
		default:
			t.Fatalf("query the analytics tables: %v\n%s", err, query)
			return false
		}
	})
}
