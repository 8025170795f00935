package readapi_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// TestNothingAtAnAddress: people get pages where pages are, programs problems everywhere else.
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
