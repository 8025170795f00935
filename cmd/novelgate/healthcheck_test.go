package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"novelgate/internal/testdb"
)

// TestHealthcheck: exit code 0 for 200, otherwise 1, and one line that says why. Proxies of the environment are for
// other machines.
func TestHealthcheck(t *testing.T) {
	t.Setenv("HTTP_PROXY", fmt.Sprintf("http://127.0.0.1:%d", testdb.ReservePort(t)))
	handler := http.NewServeMux()
	handler.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	service := httptest.NewServer(handler)
	t.Cleanup(service.Close)
	address := service.Listener.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	var status int // of the answer of /readyz
	var body string
	handler.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/healthz")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body)) // a failure shows in the client
	})
	const unready = `{"status":"unavailable","reason":"shutting down"}`
	for _, test := range []struct {
		args, variable string
		status         int
		body           string
		code           int
		says           string
	}{
		{"", address, 200, "{}", 0, "http://" + address + "/readyz answers 200 OK"},
		{"--ops-listen " + address, "127.0.0.1:1", 200, "{}", 0, "/readyz answers 200 OK"},
		{"", ":" + port, 200, "{}", 0, "/readyz answers 200 OK"},
		{"", "0.0.0.0:" + port, 200, "{}", 0, "/readyz answers 200 OK"},
		{"", address, 503, unready, 1, "http://" + address + "/readyz answers 503 Service Unavailable: shutting down"},
		{"--live", address, 503, unready, 0, "/healthz answers 200 OK"},
		{"", address, 503, "<html>\n", 1, "answers 503 Service Unavailable: no reason given"},
		{"", address, 302, "", 1, "answers 302 Found"},
		{"", fmt.Sprintf("127.0.0.1:%d", testdb.ReservePort(t)), 200, "", 1, "connection refused"},
		{"", "8081", 200, "", 80, "--ops-listen: address 8081: missing port"},
	} {
		t.Run(fmt.Sprintln(test.args, test.variable, test.status, test.body), func(t *testing.T) {
			t.Setenv("NOVELGATE_OPS_LISTEN", test.variable)
			status, body = test.status, test.body
			stdout, stderr, code := runHere(append([]string{"healthcheck"}, strings.Fields(test.args)...)...)
			said, lines := stdout+stderr, 1
			if code == 80 {
				lines = 2 // and where the help is
			}
			if code != test.code || !strings.Contains(said, test.says) || strings.Count(said, "\n") != lines {
				t.Errorf("exit code %d, want %d and %q:\n%s", code, test.code, test.says, said)
			}
		})
	}
}

// TestHealthcheckEnds: a service that does not answer is not waited for.
func TestHealthcheckEnds(t *testing.T) {
	t.Parallel()
	stuck := testdb.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = stuck.Close() })
	_, stderr, code := runHere("healthcheck", "--ops-listen", stuck.Addr().String())
	if code != 1 || !strings.Contains(stderr, "Timeout exceeded") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
