package web_test

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"novelgate/internal/problem"
	"novelgate/internal/web"
)

// TestSlowBody: a body that does not arrive in time is retryable; one that ends early or has a malformed chunk is not.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	serve := func(bodyTime time.Duration) *httptest.Server {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := web.ReadJSON(w, r, 1000)
			problem.Write(w, "r", err)
		}))
		server.Config.ReadHeaderTimeout, server.Config.ReadTimeout = time.Minute, bodyTime
		server.Start()
		t.Cleanup(server.Close)
		return server
	}
	hasty, patient := serve(200*time.Millisecond), serve(time.Minute)
	for name, c := range map[string]struct {
		sent      string
		cut       bool
		status    int
		code      problem.Code
		retryable bool
		detail    string // a part of it
	}{
		"slow": {
			"Content-Length: 20\r\n\r\nbeginning", false, http.StatusRequestTimeout, problem.CodeRequestTimeout, true, "",
		},
		"slow, chunked": {
			"Transfer-Encoding: chunked\r\n\r\n9\r\nbeginning\r\n", false, http.StatusRequestTimeout, problem.CodeRequestTimeout,
			true, "",
		},
		"cut": {
			"Content-Length: 20\r\n\r\nbeginning", true, http.StatusBadRequest, problem.CodeInvalidRequest, false, "ended early",
		},
		"cut, chunked": {
			"Transfer-Encoding: chunked\r\n\r\n9\r\nbeginning\r\n", true, http.StatusBadRequest, problem.CodeInvalidRequest,
			false, "ended early",
		},
		"malformed, chunked": {
			"Transfer-Encoding: chunked\r\n\r\nbeginning\r\n", true, http.StatusBadRequest, problem.CodeInvalidRequest,
			false, "malformed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := hasty
			if c.cut {
				server = patient
			}
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close() //nolint:errcheck // it has been read
			const head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
			if _, err := conn.Write([]byte(head + c.sent)); err != nil {
				t.Fatal(err)
			}
			if tcp, ok := conn.(*net.TCPConn); ok && c.cut {
				if err := tcp.CloseWrite(); err != nil {
					t.Fatal(err)
				}
			}
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close() //nolint:errcheck // it is read
			var got struct {
				Code      problem.Code `json:"code"`
				Retryable bool         `json:"retryable"`
				Detail    string       `json:"detail"`
			}
			if err := json.UnmarshalRead(response.Body, &got); err != nil {
				t.Fatal(err)
			}
			if response.StatusCode != c.status || got.Code != c.code || got.Retryable != c.retryable ||
				!strings.Contains(got.Detail, c.detail) {
				t.Errorf("%d %+v", response.StatusCode, got)
			}
		})
	}
}
