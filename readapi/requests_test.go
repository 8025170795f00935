package readapi_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/internal/database"
	"novelgate/internal/httpkit"
	"novelgate/internal/testdb"
	"novelgate/readapi"
)

// TestNoPartOfAQueryIsLost: a query string that cannot be parsed completely is refused.
func TestNoPartOfAQueryIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	novel := w.novel(t, "A", nil)
	id := w.comment(t, novel, events.PostImported{})
	w.project(t)
	for path, parameter := range map[string]string{
		"/api/novels":               "q",
		"/api/novels/a":             "x",
		"/api/novels/a/discussion":  "chapter",
		"/api/posts/" + id.String(): "x",
		"/novels":                   "limit",
		"/novels/a":                 "x",
		"/novels/a/discussion":      "post",
	} {
		if got := w.get(t, path); got.Code != http.StatusOK {
			t.Errorf("GET %s: %d %s", path, got.Code, got.Body)
		}
		for _, query := range []string{parameter + "=%zz", parameter + "=1;2", "x=1&" + parameter + "=%", parameter + "%=1"} {
			got := w.get(t, path+"?"+query)
			if got.Code != http.StatusBadRequest ||
				!strings.Contains(got.Body.String(), "query: is not well formed; in a value, % is written %25") {
				t.Errorf("GET %s?%s: %d %s", path, query, got.Code, got.Body)
			}
		}
	}
	if got := w.get(t, "/?campaign=50%off"); got.Code != http.StatusOK { // it has no parameters
		t.Errorf("GET / with a query that is not well formed: %d %s", got.Code, got.Body)
	}
}

// TestWhatIsNoText sends text that PostgreSQL cannot store, in every part of an address.
func TestWhatIsNoText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	novel := w.novel(t, "A", nil)
	w.comment(t, novel, reply(w.comment(t, novel, reply(novel))))
	w.project(t)
	id := "7a0c1d1c-6a0e-5d4e-8f37-9a9a2c6d4c0"
	for what, bad := range map[string]string{
		"NUL": "%00", "NUL in a text": "a%00", "invalid UTF-8": "%ff", "a lone surrogate": "a%ed%a0%80",
		"a cut character": "%e2%82",
	} {
		for path, want := range map[string]int{
			"/api/novels/" + bad:                                  http.StatusNotFound,
			"/api/novels/" + bad + "/discussion":                  http.StatusNotFound,
			"/api/novels/" + bad + "/discussion?post=" + id + "2": http.StatusNotFound,
			"/novels/" + bad:                                      http.StatusNotFound,
			"/novels/" + bad + "/discussion":                      http.StatusNotFound,
			"/novels/" + bad + "/feed.atom":                       http.StatusNotFound,
			"/assets/" + bad:                                      http.StatusNotFound,
			"/api/posts/" + bad:                                   http.StatusNotFound,
			"/api/posts/" + id + bad:                              http.StatusNotFound,
			"/api/novels?q=" + bad:                                http.StatusBadRequest,
			"/api/novels?state=" + bad:                            http.StatusBadRequest,
			"/api/novels?owner=" + bad:                            http.StatusBadRequest,
			"/api/novels?limit=" + bad:                            http.StatusBadRequest,
			"/api/novels?cursor=" + bad:                           http.StatusBadRequest,
			"/novels?q=" + bad:                                    http.StatusBadRequest,
			"/novels?owner=" + bad:                                http.StatusBadRequest,
			"/api/novels/a/discussion?sort=" + bad:                http.StatusBadRequest,
			"/api/novels/a/discussion?chapter=" + bad:             http.StatusBadRequest,
			"/api/novels/a/discussion?cursor=" + bad:              http.StatusBadRequest,
			"/api/novels/a/discussion?under=" + bad:               http.StatusBadRequest,
			"/api/novels/a/discussion?post=" + bad:                http.StatusBadRequest,
			"/api/novels/a/discussion?post=" + id + bad:           http.StatusBadRequest,
			"/novels/a/discussion?chapter=" + bad:                 http.StatusBadRequest,
		} {
			if got := w.get(t, path); got.Code != want {
				t.Errorf("%s: GET %s: %d, want %d", what, path, got.Code, want)
			}
		}
	}
	for what, inside := range map[string]string{"NUL": "ca\x00", "invalid UTF-8": "c\xff"} {
		cursor := base64.RawURLEncoding.EncodeToString([]byte(inside))
		for _, path := range []string{
			"/api/novels?cursor=" + cursor, "/novels?cursor=" + cursor, "/api/novels/a/discussion?cursor=" + cursor,
		} {
			if got := w.get(t, path); got.Code != http.StatusBadRequest {
				t.Errorf("%s in a cursor: GET %s: %d", what, path, got.Code)
			}
		}
	}
}

// TestZeroIsGiven: a parameter with the nil UUID is not taken for a missing one.
func TestZeroIsGiven(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.comment(t, w.novel(t, "A", nil), events.PostImported{})
	w.project(t)
	none := uuid.Nil.String()
	for _, query := range []string{"?under=" + none, "?post=" + none} {
		wantProblem(t, w, "/api/novels/a/discussion"+query, 404, "not_found")
	}
	wantProblem(t, w, "/api/novels/a/discussion?under="+none+"&post="+none, 400, "invalid_request")
}

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

// logBuffer collects the log messages of concurrent requests.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (d *logBuffer) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.Write(p)
}

// TestDefectsAreNoOutages: an error that a retry would not fix is a 500, and is logged.
func TestDefectsAreNoOutages(t *testing.T) {
	t.Parallel()
	address, err := url.Parse(public)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		err    error
		status int
		level  string
	}{
		"a defect":  {errors.New("this was never thought of"), http.StatusInternalServerError, "ERROR"},
		"an outage": {io.ErrUnexpectedEOF, http.StatusServiceUnavailable, "WARN"},
	} {
		for path, route := range map[string]string{
			"/api/novels/a": "/api/novels/{slug}", "/novels/a/discussion": "/novels/{slug}/discussion",
		} {
			var log logBuffer
			logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo}))
			w := &world{handler: routes(logger, time.Now, &readapi.Reader{DB: broken{err: c.err}},
				httpkit.NewAddresses(address))}
			const times = 3
			for range times {
				if got := w.get(t, path); got.Code != c.status ||
					(got.Header().Get("Retry-After") != "") != (c.status == http.StatusServiceUnavailable) {
					t.Errorf("%s: GET %s: %d %v", name, path, got.Code, got.Header())
				}
			}
			lines := strings.Count(log.text.String(), "level="+c.level)
			if lines == 0 || lines < times && c.level == "ERROR" || !strings.Contains(log.text.String(), c.err.Error()) ||
				!strings.Contains(log.text.String(), route) {
				t.Errorf("%s: GET %s: logged %q", name, path, log.text.String())
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
		"/api/novels", "/api/novels/a", "/api/novels/a/discussion", "/api/posts/" + id.String(), "/", "/novels", "/novels/a",
		"/novels/a/discussion",
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

// TestCompressedAnswers: clients that accept gzip get the same content compressed, with the same ETag; others get it
// uncompressed.
func TestCompressedAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bigDiscussion(t, w)
	w.novel(t, "Verbose", func(e *events.NovelCreated) { e.Synopsis = strings.Repeat("A boy finds a watch. ", 200) })
	w.project(t)
	style := ""
	for _, e := range checkPage(t, w, "/novels") {
		if e.attributes["rel"] == "stylesheet" {
			style = strings.TrimPrefix(e.attributes["href"], "/books")
		}
	}
	for _, path := range []string{
		"/", "/novels", "/novels/verbose", "/novels/a/discussion", "/api/novels", "/api/novels/verbose",
		"/api/novels/a/discussion", style, "/openapi.yaml",
	} {
		plain := w.get(t, path)
		if plain.Header().Get("Content-Encoding") != "" ||
			!slices.Contains(plain.Header().Values("Vary"), "Accept-Encoding") || plain.Body.Len() < 1024 {
			t.Errorf("%s, plain: %v, %d bytes", path, plain.Header(), plain.Body.Len())
		}
		for _, accepted := range []string{"identity", "gzip;q=0", "br, zstd", "gzip;q=0, *;q=0"} {
			if got := w.get(t, path, "Accept-Encoding", accepted); got.Header().Get("Content-Encoding") != "" ||
				got.Body.Len() != plain.Body.Len() {
				t.Errorf("%s for %q: %v, %d bytes", path, accepted, got.Header(), got.Body.Len())
			}
		}
		tag := plain.Header().Get("Etag")
		for _, accepted := range []string{"gzip", "gzip, deflate, br, zstd", "br;q=1.0, gzip;q=0.8"} {
			got := zipped(t, w, path, "Accept-Encoding", accepted)
			sent := got.Body.Len()
			body := unzip(t, got)
			if got.Header().Get("Content-Encoding") != "gzip" ||
				!slices.Contains(got.Header().Values("Vary"), "Accept-Encoding") ||
				got.Header().Get("Etag") != tag || got.Header().Get("Content-Length") != strconv.Itoa(sent) || got.Code != plain.Code ||
				sent >= len(body) {
				t.Errorf("%s for %q: %d %v, %d bytes of %d", path, accepted, got.Code, got.Header(), sent, len(body))
			}
			if body != plain.Body.String() {
				t.Errorf("%s for %q is not what it is otherwise", path, accepted)
			}
		}
		if got := zipped(t, w, path, "Accept-Encoding", "gzip", "If-None-Match", tag); got.Code != http.StatusNotModified ||
			got.Body.Len() > 0 ||
			got.Header().Get("Etag") != tag || got.Header().Get("Content-Encoding") != "" || !strings.HasPrefix(tag, "W/") {
			t.Errorf("%s again: %d %v, %d bytes", path, got.Code, got.Header(), got.Body.Len())
		}
	}
}

// TestNotCompressed: small answers are not compressed, and HEAD has the length of an uncompressed GET.
func TestNotCompressed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.comment(t, w.novel(t, "A", nil), events.PostImported{})
	w.project(t)
	for _, path := range []string{"/api/posts/" + id.String(), "/api/novels/a", "/api/novels/unknown"} {
		got := zipped(t, w, path, "Accept-Encoding", "gzip")
		if got.Header().Get("Content-Encoding") != "" || got.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: %v, %d bytes", path, got.Header(), got.Body.Len())
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodHead, "/novels/a", http.NoBody)
	r.Header.Set("Accept-Encoding", "gzip")
	head := httptest.NewRecorder()
	w.handler.ServeHTTP(head, r)
	if plain := w.get(t, "/novels/a"); head.Header().Get("Content-Encoding") != "" ||
		head.Header().Get("Content-Length") != strconv.Itoa(plain.Body.Len()) || head.Body.Len() > 0 {
		t.Errorf("HEAD: %v, %d bytes", head.Header(), head.Body.Len())
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

func unzip(t testing.TB, got *httptest.ResponseRecorder) string {
	t.Helper()
	reader := testdb.Must(gzip.NewReader(got.Body))(t)
	body := testdb.Must(io.ReadAll(reader))(t)
	return string(body)
}
