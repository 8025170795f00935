package chaos_test

import (
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
	status, body := blackbox.Get(t, r.OpsURL+"/metrics")
	if status != http.StatusOK {
		t.Errorf("/metrics is %d, want 200", status)
	}
	wantNoSecret(t, "/metrics", []byte(body))
	return body
}
