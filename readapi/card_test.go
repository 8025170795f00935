package readapi_test

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"novelgate/events"
	"novelgate/internal/httpkit"
	"novelgate/internal/testdb"
	"novelgate/readapi"
	"novelgate/readapi/pages"
)

// site returns the routes of w with what an operator has decided.
func (w *world) site(t testing.TB, decided pages.Site) *world {
	t.Helper()
	base := testdb.Must(url.Parse(public))(t)
	return &world{handler: routes(slog.New(slog.DiscardHandler), time.Now, &readapi.Reader{DB: w.Read},
		httpkit.NewAddresses(base), decided)}
}

// preview returns the picture that the link preview of a page has, by its path, and the Twitter card.
func preview(t *testing.T, w *world, path string) (picture, card string) {
	t.Helper()
	for _, e := range elements(t, w.get(t, path).Body.String()) {
		switch e.attributes["property"] + e.attributes["name"] {
		case "og:image":
			picture = e.attributes["content"]
		case "twitter:card":
			card = e.attributes["content"]
		}
	}
	return strings.TrimPrefix(picture, public), card
}

// TestCards: pages without a cover have a picture of the size that link previews show, whatever the title is.
func TestCards(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	titles := map[string]bool{ // whether the picture has the title
		"The Clockmaker’s Apprentice": true, "Преступление и наказание": true, "Ἰλιάς": false, "Łódź": true,
		"紅樓夢": false, "천 리 길": false, "吾輩は猫である": false, "ألف ليلة وليلة": false, "พระอภัยมณี": false,
		strings.Repeat("W", 300): true, strings.Repeat("two words ", 30): true, "a" + strings.Repeat("\u0301", 120): false,
		"\u202egnp.exe": true, "a\u200bb": false, "<script>": true, "👩‍👩‍👧‍👦": false, "...": true,
	}
	slugs := map[string]string{}
	for title := range titles {
		slugs[title] = "n" + string(rune('a'+len(slugs)))
		w.novel(t, title, func(e *events.NovelCreated) { e.Slug = slugs[title] })
	}
	w.novel(t, "Covered", func(e *events.NovelCreated) { e.CoverURL = "https://covers.example/a.jpg" })
	w.append(t, events.NovelStream, w.novel(t, "Rejected", nil), events.NovelRejected{Reason: "no"})
	w.project(t)
	site := w.site(t, pages.Site{Accent: "#206040"})

	platform, kind := preview(t, site, "/")
	empty := draw(t, site, platform)
	if kind != "summary_large_image" {
		t.Errorf("the start page has a preview of kind %s", kind)
	}
	for title, shown := range titles {
		address, _ := preview(t, site, "/novels/"+slugs[title])
		if discussion, _ := preview(t, site, "/novels/"+slugs[title]+"/discussion"); discussion != address {
			t.Errorf("%q: the discussion has the preview %s", title, discussion)
		}
		if got := draw(t, site, address); bytes.Equal(got, empty) == shown {
			t.Errorf("the picture of %.50q has the title: %v, want %v", title, !shown, shown)
		}
	}
	address, kind := preview(t, site, "/novels/covered")
	if address != "https://covers.example/a.jpg" || kind != "summary" {
		t.Errorf("a cover is shown as %s, %s", address, kind)
	}
	bare := w.site(t, pages.Site{Covers: pages.NoCovers})
	if address, _ := preview(t, bare, "/novels/covered"); !strings.HasPrefix(address, "/novels/covered/card.png?v=") {
		t.Errorf("without covers there is %s", address)
	}
	if address, _ := preview(t, w.site(t, pages.Site{Accent: "#ffffff"}), "/"); address == platform {
		t.Error("the address does not change with the colour")
	}
	for path, status := range map[string]int{"/novels/missing/card.png": 404, "/novels/rejected/card.png": 410} {
		if got := site.get(t, path); got.Code != status || got.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d, %v", path, got.Code, got.Header())
		}
	}
}

// draw gets a card, checks it, and returns the file.
func draw(t *testing.T, w *world, path string) []byte {
	t.Helper()
	got := w.get(t, path)
	h := got.Header()
	if got.Code != http.StatusOK || h.Get("Content-Type") != "image/png" || h.Get("X-Content-Type-Options") != "nosniff" ||
		h.Get("Cache-Control") != "public, max-age=86400" {
		t.Errorf("%s: %d, %v", path, got.Code, h)
	}
	if again := w.get(t, path, "If-None-Match", h.Get("Etag")); again.Code != http.StatusNotModified {
		t.Errorf("%s: asked again: %d", path, again.Code)
	}
	picture, err := png.Decode(bytes.NewReader(got.Body.Bytes()))
	if err != nil || picture.Bounds() != image.Rect(0, 0, 1200, 630) || got.Body.Len() > 200<<10 {
		t.Fatalf("%s: %v, %d bytes, %v", path, picture, got.Body.Len(), err)
	}
	if picture.At(600, 4) != (color.RGBA{0x20, 0x60, 0x40, 0xff}) {
		t.Errorf("%s: the upper edge has the colour %v", path, picture.At(600, 4))
	}
	return got.Body.Bytes()
}

// TestCardsAreBounded: a crowd that asks for cards gets them or is refused; pages are answered meanwhile.
func TestCardsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.novel(t, strings.Repeat("W", 300), func(e *events.NovelCreated) { e.Slug = "w" })
	w.project(t)
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			got := w.get(t, "/novels/w/card.png")
			busy := got.Code == http.StatusServiceUnavailable && got.Header().Get("Retry-After") != ""
			if got.Code != http.StatusOK && !busy {
				t.Errorf("%d, %v", got.Code, got.Header())
			}
		})
	}
	all.Wait()
	if got := w.get(t, "/novels/w"); got.Code != http.StatusOK {
		t.Errorf("the page is answered with %d", got.Code)
	}
}

const logo = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 120 40" onload="document.title='ran'">` +
	`<script>document.title = 'ran'</script>` +
	`<rect width="120" height="40" fill="#206040"/></svg>`

// TestLogo stands in the header in place of the name, and cannot run anything.
func TestLogo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 64, 128))); err != nil {
		t.Fatal(err)
	}
	for kind, c := range map[string]struct{ content, width string }{
		"image/svg+xml": {logo, "96"}, "image/png": {picture.String(), "16"},
	} {
		made := testdb.Must(pages.NewLogo([]byte(c.content)))(t)
		site := w.site(t, pages.Site{Name: "Tales", Logo: made})
		src := ""
		for _, e := range elements(t, site.get(t, "/").Body.String()) {
			if a := e.attributes; e.Data == "img" && a["alt"] == "Tales" && a["width"] == c.width && a["height"] == "32" {
				src = strings.TrimPrefix(e.attributes["src"], "/books")
			}
		}
		got := site.get(t, src)
		h := got.Header()
		if got.Code != http.StatusOK || got.Body.String() != c.content || h.Get("Content-Type") != kind ||
			h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "public, max-age=31536000, immutable" ||
			h.Get("Content-Security-Policy") != "default-src 'none'; style-src 'unsafe-inline'; sandbox" {
			t.Errorf("%s at %q: %d, %v", kind, src, got.Code, h)
		}
		// A page of another replica may have a logo of another kind.
		if other := site.get(t, "/assets/logo.000000000000.gif"); other.Code != http.StatusOK ||
			other.Header().Get("Content-Type") != kind || other.Header().Get("Cache-Control") != "no-cache" {
			t.Errorf("%s at another address: %d, %v", kind, other.Code, other.Header())
		}
	}
	for name, content := range map[string]string{
		"nothing": "", "HTML": "<html><script>1</script></html>", "another namespace": "<svg/>",
		"two roots": logo + "<html/>x<",
		"cut":       logo[:80],
		"entities":  `<!DOCTYPE svg [<!ENTITY a "a">]><svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1">&a;</svg>`,
		"no shape":  `<svg xmlns="http://www.w3.org/2000/svg"/>`, "flat": strings.Replace(logo, "120 40", "401 40", 1),
		"no height": strings.Replace(logo, "120 40", "120 0", 1), "no number": strings.Replace(logo, "120 40", "NaN 40", 1),
		"too large": logo + strings.Repeat(" ", pages.MaxLogo), "JPEG": "\xff\xd8\xff\xe0",
	} {
		if _, err := pages.NewLogo([]byte(content)); err == nil {
			t.Errorf("%s is taken as a logo", name)
		}
	}
}
