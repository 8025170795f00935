package readapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"novelgate/events"
	"novelgate/readapi/covers"
	"novelgate/readapi/pages"
)

// TestCovers: pages show covers as configured. A proxied one that cannot be fetched is an empty picture.
func TestCovers(t *testing.T) {
	t.Parallel()
	const address = "https://127.0.0.1/private.png"
	w := newWorld(t)
	w.novel(t, "A", func(e *events.NovelCreated) { e.CoverURL = address })
	w.novel(t, "B", nil)
	w.project(t)
	for name, c := range map[string]struct {
		covers   pages.Covers
		src, csp string // "" for no picture
	}{
		"by default": {"", `src="` + address + `"`, "img-src 'self' https:;"},
		"direct":     {pages.DirectCovers, `src="` + address + `"`, "img-src 'self' https:;"},
		"proxied":    {pages.ProxiedCovers, `src="/books/novels/a/cover?v=`, "img-src 'self';"},
		"none":       {pages.NoCovers, "", "img-src 'self';"},
	} {
		site := w.site(t, pages.Site{Covers: c.covers, Proxy: covers.New(time.Now)})
		for _, path := range []string{"/", "/novels", "/novels/a"} {
			page := site.get(t, path)
			if got := page.Header().Get("Content-Security-Policy"); !strings.Contains(got, c.csp) {
				t.Errorf("%s: %s has the policy %s", name, path, got)
			}
			switch body := page.Body.String(); {
			case c.src == "" && strings.Contains(body, "<img"):
				t.Errorf("%s: %s has a picture", name, path)
			case !strings.Contains(body, c.src):
				t.Errorf("%s: %s lacks %s", name, path, c.src)
			case c.covers == pages.ProxiedCovers && strings.Contains(body, "127.0.0.1"):
				t.Errorf("%s: %s names the partner's host", name, path)
			}
		}
		// An empty picture: there is no cover to proxy, or its address is not public.
		for _, path := range []string{"/novels/a/cover?v=1", "/novels/b/cover"} {
			got := site.get(t, path)
			if h := got.Header(); got.Code != http.StatusOK || h.Get("Content-Type") != "image/svg+xml" ||
				h.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(h.Get("Content-Security-Policy"), "sandbox") {
				t.Errorf("%s: %s is answered with %d, %v", name, path, got.Code, h)
			}
		}
		if got := site.get(t, "/novels/missing/cover"); got.Code != http.StatusNotFound {
			t.Errorf("%s: the cover of no novel is answered with %d", name, got.Code)
		}
	}
}
