package readapi_test

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
	"novelgate/internal/web"
	"novelgate/readapi"
)

// TestNothingAtAnAddress: below /novels/ an unknown address is an error page, elsewhere a problem.
func TestNothingAtAnAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.novel(t, "A", nil)
	const browser, program = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "application/json"
	for _, c := range []struct {
		method, path, accept string
		status               int
		page                 bool
	}{
		{http.MethodGet, "/", browser, 200, true},
		{http.MethodHead, "/", browser, 200, true},
		{http.MethodGet, "/", "", 200, true},
		{http.MethodGet, "/", "*/*", 200, true},
		{http.MethodGet, "/", program, 404, false},
		{http.MethodGet, "/", "text/html;q=0", 404, false},
		{http.MethodGet, "/novels/", browser, 404, true},
		{http.MethodGet, "/novels/a/", browser, 404, true},
		{http.MethodGet, "/novels/a/discussion/", browser, 404, true},
		{http.MethodGet, "/novels/a/b/c", browser, 404, true},
		{http.MethodHead, "/novels/a/b/c", browser, 404, true},
		{http.MethodGet, "/novels/a/b/c", program, 404, true}, // as /novels/unknown
		{http.MethodGet, "/novels/unknown", program, 404, true},
		{http.MethodGet, "/novels/<script>/b", browser, 404, true},
		{http.MethodPost, "/novels/a/b/c", browser, 404, false},
		{http.MethodGet, "/novelsx", browser, 404, false},
		{http.MethodGet, "/api/novels/a/b/c", browser, 404, false},
		{http.MethodGet, "/api", browser, 404, false},
		{http.MethodGet, "/nothing", browser, 404, false},
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, c.path, http.NoBody)
		if c.accept != "" {
			r.Header.Set("Accept", c.accept)
		}
		got := httptest.NewRecorder()
		w.handler.ServeHTTP(got, r)
		mediaType, caching, policy := "application/problem+json", "no-store", ""
		if c.page {
			mediaType, policy = "text/html; charset=utf-8", "default-src 'none'"
		}
		if c.status == http.StatusOK {
			caching = "public, max-age=5"
		}
		h := got.Header()
		if got.Code != c.status || h.Get("Content-Type") != mediaType || h.Get("Cache-Control") != caching ||
			!strings.HasPrefix(h.Get("Content-Security-Policy"), policy) {
			t.Errorf("%s %s for %q: %d %v", c.method, c.path, c.accept, got.Code, h)
		}
		if c.path == "/" && !slices.Contains(h.Values("Vary"), "Accept") {
			t.Errorf("%s / for %q varies with %q", c.method, c.accept, h.Values("Vary"))
		}
		var problem struct {
			Code string `json:"code"`
		}
		if !c.page && (json.Unmarshal(got.Body.Bytes(), &problem) != nil || problem.Code != "not_found") {
			t.Errorf("%s %s: %s", c.method, c.path, got.Body)
		}
		if c.method == http.MethodHead && got.Body.Len() > 0 || strings.Contains(got.Body.String(), "<script") {
			t.Errorf("%s %s: %s", c.method, c.path, got.Body)
		}
	}
}

// broken is a database on which every statement fails.
type broken struct {
	database.Querier
	err error
}

func (b broken) Query(context.Context, string, ...any) (pgx.Rows, error) { return nil, b.err }

// TestDefectsAreNoOutages: an error that a retry would not fix is a 500.
func TestDefectsAreNoOutages(t *testing.T) {
	t.Parallel()
	address := testdb.Must(url.Parse(public))(t)
	for err, status := range map[error]int{
		errors.New("this was never thought of"): http.StatusInternalServerError,
		io.ErrUnexpectedEOF:                     http.StatusServiceUnavailable,
	} {
		for _, path := range []string{"/api/novels/a", "/novels/a/discussion"} {
			w := &world{handler: routes(slog.New(slog.DiscardHandler), time.Now, &readapi.Reader{DB: broken{err: err}},
				web.NewAddresses(address))}
			if got := w.get(t, path); got.Code != status ||
				(got.Header().Get("Retry-After") != "") != (status == http.StatusServiceUnavailable) {
				t.Errorf("%v: GET %s: %d %v", err, path, got.Code, got.Header())
			}
		}
	}
}

// TestAnswersAreValidated: a conditional request (If-None-Match) for an unchanged answer gets 304.
func TestAnswersAreValidated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	novel := w.novel(t, "A", nil)
	id := w.comment(t, novel, events.PostImported{})
	w.project(t)
	paths := []string{
		"/api/novels", "/api/novels/a", "/api/novels/a/discussion", "/api/posts/" + id.String(), "/novels/a",
	}
	tags := map[string]string{}
	for _, path := range paths {
		full := w.get(t, path)
		tag := full.Header().Get("Etag")
		tags[path] = tag
		if full.Code != http.StatusOK || !strings.HasPrefix(tag, `W/"`) ||
			full.Header().Get("Cache-Control") != "public, max-age=5" ||
			full.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", path, full.Code, full.Header())
		}
		for _, header := range []string{tag, strings.TrimPrefix(tag, "W/"), `"x", ` + tag, "*"} {
			if got := w.get(t, path, "If-None-Match", header); got.Code != http.StatusNotModified || got.Body.Len() != 0 ||
				got.Header().Get("Etag") != tag {
				t.Errorf("%s, If-None-Match %s: %d, %d bytes", path, header, got.Code, got.Body.Len())
			}
		}
		if got := w.get(t, path, "If-None-Match", `"x"`); got.Code != http.StatusOK {
			t.Errorf("%s: another tag: %d", path, got.Code)
		}
		head := httptest.NewRecorder()
		w.handler.ServeHTTP(head, httptest.NewRequestWithContext(t.Context(), http.MethodHead, path, http.NoBody))
		if head.Code != http.StatusOK || head.Body.Len() != 0 || head.Header().Get("Etag") != tag ||
			head.Header().Get("Content-Length") != full.Header().Get("Content-Length") {
			t.Errorf("HEAD %s: %d, %d bytes, %v", path, head.Code, head.Body.Len(), head.Header())
		}
	}
	author := "Somebody"
	w.append(t, events.NovelStream, novel, events.NovelUpdated{Author: &author})
	for path, changed := range map[string]bool{
		"/api/novels/a": true, "/novels/a": true, "/api/novels": true, "/api/novels/a/discussion": false,
	} {
		if got := w.get(t, path, "If-None-Match", tags[path]); (got.Code == http.StatusOK) != changed {
			t.Errorf("%s after a change: %d", path, got.Code)
		}
	}
	for _, path := range []string{"/novels/unknown", "/api/novels/unknown"} {
		if got := w.get(t, path); got.Header().Get("Cache-Control") != "no-store" || got.Header().Get("Etag") != "" {
			t.Errorf("%s: %v", path, got.Header())
		}
	}
}

// TestCompressedAnswers: clients that accept gzip get the same content compressed, with the same ETag; others, and
// those of small answers, get it uncompressed.
func TestCompressedAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bigDiscussion(t, w)
	w.novel(t, "Verbose", func(e *events.NovelCreated) { e.Synopsis = strings.Repeat("A boy finds a watch. ", 200) })
	w.project(t)
	for _, path := range []string{
		"/novels/verbose", "/novels/a/discussion", "/api/novels", "/api/novels/a/discussion", "/openapi.yaml",
	} {
		plain := w.get(t, path)
		tag := plain.Header().Get("Etag")
		for _, accepted := range []string{"identity", "gzip;q=0", "br, zstd", "gzip;q=0, *;q=0"} {
			if got := w.get(t, path, "Accept-Encoding", accepted); got.Header().Get("Content-Encoding") != "" ||
				!slices.Contains(got.Header().Values("Vary"), "Accept-Encoding") || got.Body.Len() != plain.Body.Len() {
				t.Errorf("%s for %q: %v, %d bytes", path, accepted, got.Header(), got.Body.Len())
			}
		}
		for _, accepted := range []string{"gzip", "br;q=1.0, gzip;q=0.8"} {
			got := zipped(t, w, path, "Accept-Encoding", accepted)
			sent := got.Body.Len()
			if h := got.Header(); h.Get("Content-Encoding") != "gzip" || !slices.Contains(h.Values("Vary"), "Accept-Encoding") ||
				h.Get("Etag") != tag || h.Get("Content-Length") != strconv.Itoa(sent) || got.Code != plain.Code {
				t.Errorf("%s for %q: %d %v, %d bytes", path, accepted, got.Code, h, sent)
			}
			body := string(testdb.Must(io.ReadAll(testdb.Must(gzip.NewReader(got.Body))(t)))(t))
			if body != plain.Body.String() || sent >= len(body) {
				t.Errorf("%s for %q is not what it is otherwise", path, accepted)
			}
		}
		if got := zipped(t, w, path, "Accept-Encoding", "gzip", "If-None-Match", tag); got.Code != http.StatusNotModified ||
			got.Body.Len() > 0 || got.Header().Get("Etag") != tag || got.Header().Get("Content-Encoding") != "" {
			t.Errorf("%s again: %d %v, %d bytes", path, got.Code, got.Header(), got.Body.Len())
		}
	}
	if got := zipped(t, w, "/api/novels/unknown", "Accept-Encoding", "gzip"); got.Header().Get("Content-Encoding") != "" ||
		got.Header().Get("Vary") != "Accept-Encoding" {
		t.Errorf("a small answer: %v, %d bytes", got.Header(), got.Body.Len())
	}
}

// zipped gets an address without checking the body against the description, which does not know compression.
func zipped(t testing.TB, w *world, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	recorder := httptest.NewRecorder()
	w.handler.ServeHTTP(recorder, r)
	return recorder
}
