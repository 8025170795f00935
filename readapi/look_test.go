//go:build look

package readapi_test

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/internal/httpkit"
	"novelgate/readapi"
)

// overflow is by how many pixels a page is wider than its window.
const overflow = `document.documentElement.scrollWidth - window.innerWidth`

// spilled counts comments and headings that reach beyond the column.
const spilled = `[...document.querySelectorAll('.post, h1, .text, .book')].filter(e => {
	const r = e.getBoundingClientRect(); return r.right > window.innerWidth + 1 || r.left < -1 }).length`

// targetOnTop is where the comment that the address names begins in the window, from its upper edge.
const targetOnTop = `(document.querySelector(':target') || document.body).getBoundingClientRect().top`

// faint counts texts whose contrast is below 4.5 to 1 (WCAG 2.2, 1.4.3), against the nearest background behind them.
const faint = `(() => {
	const rgb = c => (c.match(/[\d.]+/g) || []).map(Number);
	const lum = c => { const [r, g, b] = c.map(v => {
		v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4 });
		return .2126*r + .7152*g + .0722*b };
	const behind = e => {
		for (; e; e = e.parentElement) {
			const c = rgb(getComputedStyle(e).backgroundColor);
			if (c.length == 3 || c[3] > 0) return c }
		return [255, 255, 255] };
	const hasText = e => [...e.childNodes].some(n => n.nodeType == 3 && n.data.trim());
	return [...document.querySelectorAll('body *')].filter(hasText).filter(e => {
		const a = lum(rgb(getComputedStyle(e).color)), b = lum(behind(e));
		return (Math.max(a, b) + .05) / (Math.min(a, b) + .05) < 4.5 }).length })()`

// TestLook opens the pages in a browser, in windows of a desktop and of a phone, light and dark, and checks that
// nothing breaks the layout and that nothing violates the content security policy. The pictures are for people: they
// are in the directory NOVELGATE_LOOK.
func TestLook(t *testing.T) {
	w := newWorld(t)
	ordinary := bigDiscussion(t, w)
	w.novel(t, "Ordinary", func(e *events.NovelCreated) {
		e.Author, e.Synopsis, e.Genres, e.ReadingStatus, e.Language = "Ida Verne",
			strings.Repeat("A boy finds a watch. ", 30), []string{"Fantasy", "Mystery"}, "ongoing", "en"
	})
	hostileNovel := w.novel(t, hostile[0]+hostile[7], func(e *events.NovelCreated) {
		e.Slug, e.Author, e.Synopsis, e.Genres, e.Language = "hostile", strings.Repeat("A", 120), hostile[16],
			[]string{strings.Repeat("W", 50), "<i>"}, "\"><script>"
		e.CoverURL = "https://covers.example/a.jpg"
	})
	w.novel(t, strings.Repeat("W", 300), nil)
	var last uuid.UUID
	for i, content := range hostile {
		e := events.PostImported{
			Comment: &events.Comment{
				ExternalUUID: fmt.Sprint(i), Username: string([]rune(hostile[i%16])[:min(50, len([]rune(hostile[i%16])))]),
				Content: content,
			},
		}
		if i%2 == 1 {
			e.ParentPostID = &last
		}
		last = w.comment(t, hostileNovel, e)
	}
	w.project(t)
	w.exec(t, `UPDATE posts SET hidden = true WHERE post_id = $1`, ordinary[31])

	// The links of the pages must lead to the server under test.
	public := &url.URL{Scheme: "http", Host: "127.0.0.1"}
	server := httptest.NewServer(routes(slog.New(slog.DiscardHandler), &readapi.Reader{DB: w.Read},
		httpkit.NewAddresses(public)))
	defer server.Close()
	deep := ordinary[len(ordinary)-1].String()
	b := openBrowser(t)
	for name, path := range map[string]string{
		"start": "/", "no-page": "/novels/a/b/c", "catalogue": "/novels", "novel": "/novels/ordinary",
		"discussion": "/novels/a/discussion", "link": "/novels/a/discussion?post=" + deep + "#post-" + deep,
		"hostile-novel": "/novels/hostile", "hostile-discussion": "/novels/hostile/discussion?sort=oldest",
		"not-found": "/novels/unknown", "search": "/novels?q=nothing",
	} {
		for window, size := range map[string][2]int{"desktop": {1280, 900}, "phone": {390, 844}, "narrow": {320, 640}} {
			for _, scheme := range []string{"light", "dark"} {
				b.open(t, server.URL+path, size[0], size[1], scheme)
				if wide := b.evaluate(t, overflow); wide > 0 {
					t.Errorf("%s, %s: the page is %v pixels wider than the window", name, window, wide)
				}
				if n := b.evaluate(t, spilled); n > 0 {
					t.Errorf("%s, %s: %v elements reach out of the window", name, window, n)
				}
				if n := b.evaluate(t, faint); n > 0 {
					t.Errorf("%s, %s: %v texts are too faint", name, scheme, n)
				}
				if top := b.evaluate(t, targetOnTop); name == "link" && (top < 0 || top > float64(size[1])/2) {
					t.Errorf("%s, %s: the comment begins at %v", name, window, top)
				}
				save(t, name+"-"+window+"-"+scheme+".png", b.screenshot(t))
				for _, complaint := range b.log {
					if !strings.HasPrefix(name, "no") || !strings.Contains(complaint, "404") {
						t.Errorf("%s, %s: %s", name, window, complaint)
					}
				}
			}
		}
	}
}

func save(t *testing.T, name string, picture []byte) {
	t.Helper()
	dir := os.Getenv("NOVELGATE_LOOK")
	if dir == "" {
		return
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), picture, 0o644); err != nil {
		t.Fatal(err)
	}
}
