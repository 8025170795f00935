package httpkit_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"novelgate/internal/httpkit"
)

// TestHeaderFieldsAreLimited: a request with too many header fields is refused, and its fields are freed while its body
// stalls.
func TestHeaderFieldsAreLimited(t *testing.T) {
	t.Parallel()
	distinct := func(n int) (fields string) {
		for i := range n {
			fields += fmt.Sprintf("A%d:\r\n", i)
		}
		return fields
	}
	for name, c := range map[string]struct {
		fields string
		status int
	}{
		"as many as may be":       {distinct(64), http.StatusOK},
		"one more":                {distinct(65), http.StatusRequestHeaderFieldsTooLarge},
		"one more, with one name": {strings.Repeat("A:\r\n", 65), http.StatusRequestHeaderFieldsTooLarge},
		"one more, and no body yet": {
			distinct(64) + "Content-Length: 9\r\n", http.StatusRequestHeaderFieldsTooLarge,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limited := httpkit.LimitFields(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			kept := make(chan http.Header, 1)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				limited.ServeHTTP(w, r)
				kept <- r.Header
			}))
			t.Cleanup(server.Close)
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close() //nolint:errcheck // it has been read
			if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\n"+c.fields+"\r\n"); err != nil {
				t.Fatal(err)
			}
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close() //nolint:errcheck // nobody reads it
			refused := c.status != http.StatusOK
			if header := <-kept; response.StatusCode != c.status || response.Close != refused || refused && header != nil {
				t.Errorf("status %d, closes %v, header %v", response.StatusCode, response.Close, header)
			}
		})
	}
}
