package readapi_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"novelgate/events"
)

// TestCompressedAnswers: those who take gzip get the same bytes in less of them, under the same tag, and others get
// what they always got.
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
				got.Header().Get("Etag") != tag || got.Header().Get("Content-Length") != "" || got.Code != plain.Code ||
				sent >= len(body) {
				t.Errorf("%s for %q: %d %v, %d bytes of %d", path, accepted, got.Code, got.Header(), sent, len(body))
			}
			if body != plain.Body.String() {
				t.Errorf("%s for %q is not what it is otherwise", path, accepted)
			}
		}
		if tag == "" {
			continue
		}
		if got := zipped(t, w, path, "Accept-Encoding", "gzip", "If-None-Match", tag); got.Code != http.StatusNotModified ||
			got.Body.Len() > 0 ||
			got.Header().Get("Etag") != tag || got.Header().Get("Content-Encoding") != "" || !strings.HasPrefix(tag, "W/") {
			t.Errorf("%s again: %d %v, %d bytes", path, got.Code, got.Header(), got.Body.Len())
		}
	}
}

// TestNotCompressed: what is small stays as it is, and HEAD tells the length of what a plain GET gets.
func TestNotCompressed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.comment(t, w.novel(t, "A", nil), events.PostImported{})
	w.project(t)
	for _, path := range []string{"/api/posts/" + id.String(), "/api/novels/a", "/api/novels/unknown", "/novels/unknown"} {
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

// zipped gets an address without holding the body, which the description does not know compressed, against the
// description.
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
	reader, err := gzip.NewReader(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
