package readapi_test

import (
	"net/http"
	"testing"
)

func TestTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.novel(t, "A", nil)
	w.Read.Close()
	for _, path := range []string{"/api/novels", "/api/novels/a", "/api/novels/a/discussion", "/api/posts/7a0c1d1c-6a0e-5d4e-8f37-9a9a2c6d4c02"} {
		wantProblem(t, w, path, http.StatusServiceUnavailable, "unavailable")
	}
	for _, path := range []string{"/novels", "/novels/a", "/novels/a/discussion"} {
		checkPage(t, w, path)
		if got := w.get(t, path); got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") != "1" || got.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v", path, got.Code, got.Header())
		}
	}
}
