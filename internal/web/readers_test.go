package web_test

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"novelgate/internal/testdb"
	"novelgate/internal/web"
)

// content is what a route for readers has.
type content struct {
	*web.Kit

	mediaType, body string
	err             error
}

// ask sends a request; pairs are headers.
func (c content) ask(t *testing.T, method string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "/", http.NoBody)
	for pair := range slices.Chunk(header, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	recorder := httptest.NewRecorder()
	c.Public(func(_ context.Context, h http.Header, _ *http.Request) ([]byte, error) {
		h.Set("Content-Type", c.mediaType)
		return []byte(c.body), c.err
	}, nil).ServeHTTP(recorder, r)
	return recorder
}

func newContent() content {
	kit := &web.Kit{Timeout: time.Minute, Logger: slog.New(slog.DiscardHandler)}
	return content{kit, "text/plain", strings.Repeat("A boy finds a watch. ", 200), nil}
}

// TestAnswersAreValidated: a conditional request (If-None-Match) for an unchanged answer gets 304.
func TestAnswersAreValidated(t *testing.T) {
	t.Parallel()
	c := newContent()
	full := c.ask(t, http.MethodGet)
	h, tag := full.Header(), full.Header().Get("Etag")
	if full.Code != http.StatusOK || !strings.HasPrefix(tag, `W/"`) || full.Body.String() != c.body ||
		h.Get("Cache-Control") != "public, max-age=5" {
		t.Errorf("%d %v", full.Code, h)
	}
	for _, header := range []string{tag, strings.TrimPrefix(tag, "W/"), `"x", ` + tag, "*"} {
		for _, accepted := range []string{"", "gzip"} {
			if got := c.ask(t, http.MethodGet, "If-None-Match", header, "Accept-Encoding", accepted); got.Body.Len() != 0 ||
				got.Code != http.StatusNotModified || got.Header().Get("Etag") != tag ||
				got.Header().Get("Content-Encoding") != "" {
				t.Errorf("If-None-Match %s: %d, %d bytes", header, got.Code, got.Body.Len())
			}
		}
	}
	if got := c.ask(t, http.MethodGet, "If-None-Match", `"x"`); got.Code != http.StatusOK {
		t.Errorf("another tag: %d", got.Code)
	}
	head := c.ask(t, http.MethodHead)
	if head.Code != http.StatusOK || head.Body.Len() != 0 || head.Header().Get("Etag") != tag ||
		head.Header().Get("Content-Length") != full.Header().Get("Content-Length") {
		t.Errorf("HEAD: %d, %d bytes, %v", head.Code, head.Body.Len(), head.Header())
	}
	c.body = "changed"
	if got := c.ask(t, http.MethodGet, "If-None-Match", tag); got.Code != http.StatusOK {
		t.Errorf("after a change: %d", got.Code)
	}
	c.err = errors.New("broken")
	if got := c.ask(t, http.MethodGet); got.Code != http.StatusInternalServerError || got.Header().Get("Etag") != "" ||
		got.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("an error: %d %v", got.Code, got.Header())
	}
}

// TestCompressedAnswers: clients that accept gzip get the same content compressed, with the same ETag; others, and
// those of small answers and of pictures, get it uncompressed.
func TestCompressedAnswers(t *testing.T) {
	t.Parallel()
	c := newContent()
	plain := c.ask(t, http.MethodGet)
	uncompressed := func(c content, accepted string) {
		t.Helper()
		if got := c.ask(t, http.MethodGet, "Accept-Encoding", accepted); got.Header().Get("Content-Encoding") != "" ||
			got.Header().Get("Vary") != "Accept-Encoding" || got.Body.String() != c.body {
			t.Errorf("%s for %q: %v, %d bytes", c.mediaType, accepted, got.Header(), got.Body.Len())
		}
	}
	for _, accepted := range []string{"identity", "gzip;q=0", "br, zstd", "gzip;q=0, *;q=0"} {
		uncompressed(c, accepted)
	}
	uncompressed(content{c.Kit, "text/plain", "small", nil}, "gzip")
	uncompressed(content{c.Kit, "image/png", c.body, nil}, "gzip")
	for _, accepted := range []string{"gzip", "br;q=1.0, gzip;q=0.8"} {
		got := c.ask(t, http.MethodGet, "Accept-Encoding", accepted)
		sent := got.Body.Len()
		if h := got.Header(); h.Get("Content-Encoding") != "gzip" || h.Get("Etag") != plain.Header().Get("Etag") ||
			h.Get("Content-Length") != strconv.Itoa(sent) || sent >= len(c.body) {
			t.Errorf("for %q: %v, %d bytes", accepted, h, sent)
		}
		if body := testdb.Must(io.ReadAll(testdb.Must(gzip.NewReader(got.Body))(t)))(t); string(body) != c.body {
			t.Errorf("for %q: it is not what it is otherwise", accepted)
		}
	}
}

// TestReadersWaitForAPermit: who gets none within the time of a request gets 503.
func TestReadersWaitForAPermit(t *testing.T) {
	t.Parallel()
	kit := &web.Kit{
		Timeout: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler), Readers: web.NewReaders(1),
	}
	reading, done := make(chan struct{}), make(chan struct{})
	first := kit.Public(func(context.Context, http.Header, *http.Request) ([]byte, error) {
		close(reading)
		<-done
		return nil, nil
	}, nil)
	ended := make(chan int)
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	go func() {
		recorder := httptest.NewRecorder()
		first.ServeHTTP(recorder, request)
		ended <- recorder.Code
	}()
	<-reading
	c := content{kit, "text/plain", "x", nil}
	if got := c.ask(t, http.MethodGet); got.Code != http.StatusServiceUnavailable ||
		got.Header().Get("Retry-After") == "" {
		t.Errorf("without a permit: %d %v", got.Code, got.Header())
	}
	close(done)
	if code := <-ended; code != http.StatusOK {
		t.Errorf("the first: %d", code)
	}
	if got := c.ask(t, http.MethodGet); got.Code != http.StatusOK {
		t.Errorf("with the permit again: %d", got.Code)
	}
}
