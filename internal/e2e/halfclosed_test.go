package e2e_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"

	"novelgate/internal/testdb"
)

// TestHalfClosedConnections: clients that close their side of the connection after a request get their answers, as
// those of `nc -N` do.
func TestHalfClosedConnections(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p := s.NewPartner(t)
	base := testdb.Must(url.Parse(s.URL))(t)
	body := Comment(Unique("Half")).JSON(t)
	command := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nIdempotency-Key: %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", PostsPath, p.APIKey, Key(), len(body), body)
	for request, want := range map[string]int{
		command: http.StatusCreated,
		"GET /api/novels HTTP/1.1\r\nHost: x\r\n\r\n": http.StatusOK,
	} {
		conn := testdb.Must(net.Dial("tcp", base.Host))(t)
		t.Cleanup(func() { _ = conn.Close() })
		testdb.Must(io.WriteString(conn, request))(t)
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
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
}
