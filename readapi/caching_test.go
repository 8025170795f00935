package readapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"novelgate/events"
)

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
