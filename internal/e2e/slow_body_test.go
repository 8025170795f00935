package e2e_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"novelgate/internal/testdb"
)

// TestTrickledBodyIsNotTimedOut: the time-out is the service's own, for its own work; how long a partner takes to send
// does not use it up.
func TestTrickledBodyIsNotTimedOut(t *testing.T) {
	t.Parallel()
	p := Start(t, testdb.New(t), "--request-timeout", "3s").NewPartner(t)
	for path, body := range map[string]Fields{
		NovelsPath: everything(Unique("Trickled")).With(Fields{
			"synopsis": strings.Repeat("滴", 5000),
		}),
		PostsPath: Comment(Unique("Trickled")).With(Fields{
			"content": strings.Repeat("滴", 5000),
		}),
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			request := p.Request(path, Key(), body.JSON(t))
			request.Chunked, request.Pause = path == PostsPath, 3500*time.Millisecond
			begun := time.Now()
			if response := p.Service.Send(t, request); response.Status != 201 {
				t.Errorf("status %d, want 201\n%s", response.Status, response.Body)
			}
			if took := time.Since(begun); took < request.Pause {
				t.Errorf("answered after %v, before the body was there", took)
			}
		})
	}
}

// TestUnreadBodiesHoldNoConnection: a connection whose request has a body that no route reads, and that does not
// arrive, is answered and closed long before the 15 s that a body may take. Otherwise clients without a key would hold
// all connections.
func TestUnreadBodiesHoldNoConnection(t *testing.T) {
	t.Parallel()
	const wait = 10 * time.Second
	service := Start(t, testdb.New(t))
	address := strings.TrimPrefix(service.URL, "http://")
	stream := "Accept: application/x-ndjson\r\nAuthorization: Bearer " + service.NewAuditor(t).APIKey + "\r\n"
	for _, line := range []string{
		"GET /healthz", "HEAD /readyz", "GET /novels", "GET /novels/none", "GET /assets/none", "GET /ledger/checkpoint",
		"GET /openapi.yaml", "GET /api/events", "GET /api/events?limit=1", "GET /none", "OPTIONS *",
		"OPTIONS /novels", "POST /healthz", "POST /none", "POST /api/integrations/posts", "POST /api/admin/integrations",
	} {
		for _, field := range []string{"Content-Length: 10", "Transfer-Encoding: chunked"} {
			t.Run(line+" "+field, func(t *testing.T) {
				t.Parallel()
				conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close() //nolint:errcheck // it has been read
				if err := conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
					t.Fatal(err)
				}
				head := line + " HTTP/1.1\r\nHost: x\r\n" + field + "\r\n"
				if strings.Contains(line, "limit=1") {
					head += stream
				}
				if _, err := io.WriteString(conn, head+"\r\n"); err != nil {
					t.Fatal(err)
				}
				answer, err := io.ReadAll(conn)
				if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 ") {
					line, _, _ := strings.Cut(string(answer), "\r\n")
					t.Errorf("the answer is %q, and the connection open after %s: %v", line, wait, err)
				}
			})
		}
	}
}
