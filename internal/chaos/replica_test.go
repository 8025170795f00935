package chaos_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"testing"

	"novelgate/internal/blackbox"
)

// publicURL is what URLs in answers begin with, whichever replica answers.
const publicURL = "https://platform.example"

// replica is one running service.
type replica struct {
	*process
	*blackbox.Service
}

// serve starts a service on the database, with its own settings but for the addresses, and waits until it listens.
func serve(t testing.TB, databaseURL string, flags ...string) *replica {
	t.Helper()
	return serveOn(t, databaseURL, append([]string{"--database-url", databaseURL}, flags...)...)
}

// serveEmbedded does the same on the embedded database in dir.
func serveEmbedded(t testing.TB, dir string, flags ...string) *replica {
	t.Helper()
	return serveOn(t, "", append([]string{"--data-dir", dir}, flags...)...)
}

func serveOn(t testing.TB, databaseURL string, flags ...string) *replica {
	t.Helper()
	r := begin(t, flags...)
	r.DatabaseURL = databaseURL
	r.await(t)
	return r
}

// begin starts a service and does not wait for it.
func begin(t testing.TB, flags ...string) *replica {
	t.Helper()
	args := slices.Concat([]string{
		"serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--public-url", publicURL, "--log-level", "debug",
		"--data-dir", t.TempDir(),
	}, flags)
	return &replica{process: launch(t, args...), Service: blackbox.Attach("")}
}

// await waits until the service listens.
func (r *replica) await(t testing.TB) {
	t.Helper()
	r.URL = r.line(t, "Novelgate is listening on ")
	r.OpsURL = r.line(t, "Operations (metrics, health, pprof) on ")
}

// metrics scrapes the service and looks for secrets in what it exports.
func (r *replica) metrics(t testing.TB) string {
	t.Helper()
	status, body := get(t, r.OpsURL+"/metrics")
	if status != http.StatusOK {
		t.Errorf("/metrics is %d, want 200", status)
	}
	wantNoSecret(t, "/metrics", []byte(body))
	return body
}

func get(t testing.TB, url string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatalf("make request: %v", err)
	}
	request.Close = true // leaves no idle connection behind
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatalf("get %s: %v", url, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("read %s: %v", url, err)
	}
	return response.StatusCode, string(body)
}
