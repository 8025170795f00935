package httpkit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"novelgate/internal/httpkit"
)

// BenchmarkCompress sends a page of 40 kB: as it is, to a client that does not ask for gzip, and to one that does.
func BenchmarkCompress(b *testing.B) {
	var page strings.Builder
	for i := 0; page.Len() < 40_000; i++ {
		fmt.Fprintf(&page, "<article id=\"post-%08x\"><p>Comment %d of %x, which says nothing much.</p></article>\n",
			i*2654435761, i, i*i*40503)
	}
	body := []byte(page.String())
	send := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		httpkit.Send(w, r, "text/html; charset=utf-8", body)
	})
	compressed := new(httpkit.Kit).Public(send, nil)
	for name, c := range map[string]struct {
		handler  http.Handler
		encoding string
	}{
		"without": {send, ""}, "not asked for": {compressed, ""},
		"gzip": {compressed, "gzip, deflate, br"},
	} {
		b.Run(name, func(b *testing.B) {
			r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/", http.NoBody)
			r.Header.Set("Accept-Encoding", c.encoding)
			sent := 0
			for b.Loop() {
				w := &counted{header: http.Header{}}
				c.handler.ServeHTTP(w, r)
				sent = w.bytes
			}
			b.ReportMetric(float64(sent), "bytes/answer")
		})
	}
}

// counted counts bytes.
type counted struct {
	header http.Header
	bytes  int
}

func (c *counted) Header() http.Header { return c.header }

func (c *counted) Write(p []byte) (int, error) {
	c.bytes += len(p)
	return len(p), nil
}

func (c *counted) WriteHeader(int) {}
