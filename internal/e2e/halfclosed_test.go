package e2e_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"novelgate/internal/testdb"
)

// TestHalfClosedConnections: clients that close their side of the connection after a request get their answers, as
// those of `nc -N` do, and what clients do that leave altogether says nothing about the service.
func TestHalfClosedConnections(t *testing.T) {
	t.Parallel()
	s := Start(t, testdb.New(t))
	p := s.NewPartner(t)
	base := testdb.Must(url.Parse(s.URL))(t)
	send := func(request string) *net.TCPConn {
		t.Helper()
		conn := testdb.Must(net.Dial("tcp", base.Host))(t)
		t.Cleanup(func() { _ = conn.Close() })
		testdb.Must(io.WriteString(conn, request))(t)
		return conn.(*net.TCPConn)
	}
	command := func() string {
		body := Comment(Unique("Half")).JSON(t)
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nIdempotency-Key: %s\r\n"+
			"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", PostsPath, p.APIKey, Key(), len(body), body)
	}
	for request, want := range map[string]int{
		command(): http.StatusCreated,
		"GET /api/novels HTTP/1.1\r\nHost: x\r\n\r\n": http.StatusOK,
	} {
		conn := send(request)
		if err := conn.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%.20s… is answered with %d, want %d", request, response.StatusCode, want)
		}
	}

	// Longer than the time after which failures make the service not ready.
	for begun := time.Now(); time.Since(begun) < 4*time.Second; {
		conn := send(command())
		_ = conn.SetLinger(0) // RST
		_ = conn.Close()
	}
	testdb.Eventually(t, "the service is ready", func() bool { // the database may be busy with what they have sent
		status, body := Get(t, s.OpsURL+"/readyz")
		if strings.Contains(body, `"commands"`) {
			t.Fatalf("/readyz is %d\n%s", status, body)
		}
		return status == http.StatusOK
	})
}
