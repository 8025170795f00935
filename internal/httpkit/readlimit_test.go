package httpkit_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
)

// TestRefusedReadersAreCutOff: of several requests that a client sends at once, one is refused while there is no room.
func TestRefusedReadersAreCutOff(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}), make(chan struct{})
	readers := httpkit.NewReadLimit("test", 1, 1, time.Minute)
	server := httptest.NewServer(readers.Limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		begun <- struct{}{}
		<-release
	}), func(w http.ResponseWriter, _ *http.Request, err error) { problem.Write(w, "r", err) }))
	t.Cleanup(server.Close)
	send := func(requests int) *bufio.Reader {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := conn.Write([]byte(strings.Repeat("GET / HTTP/1.1\r\nHost: x\r\n\r\n", requests))); err != nil {
			t.Fatal(err)
		}
		return bufio.NewReader(conn)
	}
	answer := func(r *bufio.Reader) (int, error) {
		response, err := http.ReadResponse(r, nil)
		if err != nil {
			return 0, err
		}
		_, err = io.Copy(io.Discard, response.Body)
		return response.StatusCode, errors.Join(err, response.Body.Close())
	}
	first := send(1)
	<-begun
	refused := send(3)
	if status, err := answer(refused); status != http.StatusServiceUnavailable || err != nil {
		t.Errorf("without room: %d, %v", status, err)
	}
	if status, err := answer(refused); err == nil {
		t.Errorf("the next request is answered, too: %d", status)
	}
	close(release)
	if status, err := answer(first); status != http.StatusOK || err != nil {
		t.Errorf("the one in the room: %d, %v", status, err)
	}
}
