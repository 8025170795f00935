package blackbox

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	startTimeout = 60 * time.Second // a cold start under the race detector on a busy machine
	stopTimeout  = 40 * time.Second // longer than the request timeout below
)

// Service is one running `novelgate serve`.
type Service struct {
	URL         string // of --listen, without a trailing slash
	OpsURL      string // of --ops-listen, likewise
	DatabaseURL string

	registrar sync.Once // makes registers
	registers *Person   // who registers partners

	binary string
	cmd    *exec.Cmd
	stderr *Capture
	http   *http.Client
	killed bool          // by Kill
	exited chan struct{} // closed when the process has ended
	result error         // of the process; valid once exited is closed
}

// Attach returns a Service that somebody else runs at the URL, for its client alone: it cannot be stopped and has no
// database.
func Attach(url string) *Service {
	return &Service{URL: url, stderr: &Capture{}, http: newHTTPClient()}
}

// Start runs the service on the database and waits until it says that it listens. flags come after the ones that every
// test needs. When the test ends the service gets SIGTERM and must exit with 0.
func Start(t testing.TB, databaseURL string, flags ...string) *Service {
	t.Helper()
	return StartLogged(t, databaseURL, &Capture{Max: 1}, flags...)
}

// StartLogged is Start, and copies all that the service says, on standard error and standard output, to log.
func StartLogged(t testing.TB, databaseURL string, log *Capture, flags ...string) *Service {
	t.Helper()
	s := &Service{
		DatabaseURL: databaseURL,
		binary:      Binary(t),
		stderr:      &Capture{Max: 16 << 10},
		http:        newHTTPClient(),
		exited:      make(chan struct{}),
	}
	// Not TempDir: a shared service outlives the test that starts it.
	dataDir, err := os.MkdirTemp("", "novelgate-blackbox-")
	if err != nil {
		t.Fatalf("make data directory: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dataDir) })
	args := []string{
		"serve", "--database-url", databaseURL, "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0",
		"--allow-unsafe-durability", "--request-timeout", "30s", "--data-dir", dataDir,
	}
	s.cmd = exec.CommandContext(context.Background(), s.binary, append(args, flags...)...) //nolint:gosec // running the binary under test is the point
	s.cmd.Stderr = io.MultiWriter(s.stderr, log)
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("open standard output of the service: %v", err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatalf("start the service: %v", err)
	}
	addresses := make(chan [2]string, 1)
	go s.watch(io.TeeReader(stdout, log), addresses)
	t.Cleanup(func() { s.Stop(t) })

	select {
	case found := <-addresses:
		s.URL, s.OpsURL = found[0], found[1]
	case <-s.exited:
		t.Fatalf("the service ended before it listened: %v\n%s", s.result, s.stderr)
	case <-time.After(startTimeout):
		t.Fatalf("the service did not say where it listens within %v\n%s", startTimeout, s.stderr)
	}
	return s
}

// watch reads standard output to its end, reports the two addresses once, and reaps the process.
func (s *Service) watch(stdout io.Reader, addresses chan<- [2]string) {
	var found [2]string
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		for i, prefix := range []string{"Novelgate is listening on ", "Operations (metrics, health, pprof) on "} {
			if address, ok := strings.CutPrefix(lines.Text(), prefix); ok {
				found[i] = strings.TrimRight(strings.TrimSpace(address), "/")
			}
		}
		if found[0] != "" && found[1] != "" {
			select {
			case addresses <- found:
			default: // already reported
			}
		}
	}
	s.result = s.cmd.Wait()
	close(s.exited)
}

// Terminate sends SIGTERM and does not wait. How a service has ended that is gone already, Stop finds out.
func (s *Service) Terminate(t testing.TB) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("send SIGTERM: %v", err)
	}
}

// Kill ends the process at once, as a crash would, and waits until it is gone.
func (s *Service) Kill(t testing.TB) {
	t.Helper()
	s.killed = true
	if err := s.cmd.Process.Kill(); err != nil {
		t.Errorf("send SIGKILL: %v", err)
	}
	<-s.exited
}

// Stop sends SIGTERM, waits, and fails the test unless the exit code is 0. A service that has ended already is only
// checked, and one that was killed not even that.
func (s *Service) Stop(t testing.TB) {
	t.Helper()
	s.http.CloseIdleConnections()
	if s.killed {
		return
	}
	select {
	case <-s.exited:
	default:
		s.Terminate(t)
	}
	select {
	case <-s.exited:
	case <-time.After(stopTimeout):
		_ = s.cmd.Process.Kill() // the failure below says it all
		<-s.exited
		t.Errorf("the service did not stop within %v after SIGTERM\n%s", stopTimeout, s.stderr)
		return
	}
	if s.result != nil {
		t.Errorf("the service ended with %v, want exit code 0\n%s", s.result, s.stderr)
	}
}

// Stderr returns the newest part of what the service has logged.
func (s *Service) Stderr() string { return s.stderr.String() }

// newHTTPClient returns a client that shares no connection with other services and hands over a redirect instead of
// following it: the interface has none.
func newHTTPClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 64},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
