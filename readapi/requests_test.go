package readapi_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
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
		{http.MethodGet, "/", program, 200, true},
		{http.MethodGet, "/novels/", browser, 404, true},
		{http.MethodGet, "/novels/a/", browser, 404, true},
		{http.MethodGet, "/novels/a/discussion/", browser, 404, true},
		{http.MethodGet, "/novels/a/b/c", browser, 404, true},
		{http.MethodHead, "/novels/a/b/c", browser, 404, true},
		{http.MethodGet, "/novels/a/b/c", program, 404, true}, // as /novels/unknown
		{http.MethodGet, "/novels/unknown", program, 404, true},
		{http.MethodGet, "/novels/<script>/b", browser, 404, true},
		{http.MethodPost, "/novels/a/b/c", browser, 404, false},
		{http.MethodGet, "/novelsx", browser, 404, true},
		{http.MethodGet, "/nothing", program, 404, false},
		{http.MethodPost, "/nothing", browser, 404, false},
		{http.MethodGet, "/api/novels/a/b/c", browser, 404, false},
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
		var problem struct {
			Code   string `json:"code"`
			Detail string `json:"detail"`
		}
		if !c.page && (json.Unmarshal(got.Body.Bytes(), &problem) != nil || problem.Code != "not_found" ||
			strings.HasPrefix(c.path, "/api/") != strings.HasSuffix(problem.Detail, public+"/docs")) {
			t.Errorf("%s %s: %s", c.method, c.path, got.Body)
		}
		if c.page && c.method == http.MethodGet && !strings.Contains(got.Body.String(), `role="search"`) {
			t.Errorf("%s %s has no search: %s", c.method, c.path, got.Body)
		}
		if c.method == http.MethodHead && got.Body.Len() > 0 || strings.Contains(got.Body.String(), "<script") {
			t.Errorf("%s %s: %s", c.method, c.path, got.Body)
		}
	}
}

// TestNearAnAddress: a page for a missing address searches for its words, and otherwise shows the newest novels.
func TestNearAnAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.novel(t, "The Clockmaker's Apprentice", nil)
	w.append(t, events.NovelStream, w.novel(t, "Clockmaker Tales", nil), events.NovelRejected{Reason: "no"})
	w.flush(t)
	w.novel(t, "Zebra", nil)
	w.project(t)
	const found = "Novels with words of this address"
	clock, newest := []string{"The Clockmaker's Apprentice"}, []string{"Zebra", "The Clockmaker's Apprentice"}
	for _, c := range []struct {
		path, words, heading string
		novels               []string
	}{
		{"/novels/clockmakers", "clockmakers", found, clock},
		{"/novels/clockmaker-tales", "clockmaker tales", found, clock},
		{"/novels/clockmakers_aprentice/discussion/x", "clockmakers aprentice", found, clock},
		{"/novels/%ff%00", "", "Newest novels", newest},
		{"/novels/Moby-Dick/discussion", "Moby Dick", "Newest novels", newest},
		{"/nothing", "", "Newest novels", newest},
	} {
		got := w.get(t, c.path, "Accept", "text/html")
		words, heading, novels := "", "", []string{}
		for _, e := range elements(t, got.Body.String()) {
			switch href := e.attributes["href"]; {
			case e.Data == "input":
				words = e.attributes["value"]
			case e.Data == "h2":
				heading = text(e.Node)
			case e.Data == "a" && strings.HasPrefix(href, "/books/novels/"):
				novels = append(novels, text(e.Node))
			}
		}
		if words != c.words || heading != c.heading || !slices.Equal(novels, c.novels) ||
			got.Code != http.StatusNotFound && got.Code != http.StatusGone {
			t.Errorf("%s: %d, %q in the search box, %q: %q", c.path, got.Code, words, heading, novels)
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
