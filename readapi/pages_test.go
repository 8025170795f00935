package readapi_test

import (
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/net/html"
	"golang.org/x/text/language"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/readapi/pages"
)

func TestPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := bigDiscussion(t, w)
	w.novel(t, "Empty", hosted)
	w.append(t, events.NovelStream, w.novel(t, "Rejected", nil), events.NovelRejected{Reason: "no"})
	w.project(t)
	w.exec(t, `UPDATE posts SET hidden = true WHERE post_id = ANY ($1)`, []uuid.UUID{all[31], all[33]})
	w.exec(t, `UPDATE posts SET author_id = NULL, content_bytes = NULL WHERE post_id = $1`, all[30])
	for _, path := range []string{
		"/novels", "/novels?limit=1", "/novels?limit=1&q=e&state=published", "/novels?q=nothing", "/novels?owner=Fan+Site",
		"/novels/a", "/novels/empty",
		"/novels/a/discussion", "/novels/a/discussion?sort=oldest&limit=3",
		"/novels/empty/discussion",
		"/novels/a/discussion?chapter=none&limit=5", "/novels/a/discussion?chapter=7",
		"/novels/a/discussion?post=" + all[len(all)-1].String(),
		"/novels/a/discussion?post=" + all[len(all)-2].String() + "&sort=oldest",
		"/novels/a/discussion?under=" + all[30].String() + "&limit=5",
		"/novels/a/discussion?under=" + all[31].String() + "&limit=5&sort=oldest",
		"/novels/unknown", "/novels/rejected", "/novels/rejected/discussion", "/novels/a/discussion?limit=1000",
		"/assets/nothing.txt", "/",
		"/novels/", "/novels/a/", "/novels/a/b/c", "/novels/a%2Fb", "/novels//discussion",
	} {
		checkPage(t, w, path)
	}
	for path, status := range map[string]int{
		"/novels/unknown": 404, "/novels/rejected": 410, "/novels/a/discussion?limit=1000": 400, "/assets/a.b.css": 404,
	} {
		if got := w.get(t, path); got.Code != status || got.Header().Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("%s: %d %v", path, got.Code, got.Header())
		}
	}
}

func TestLinkPreviews(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	novel := w.novel(t, "A", func(e *events.NovelCreated) {
		e.CoverURL, e.Synopsis = "https://covers.example/a.jpg", "A boy finds a watch."
	})
	first := w.comment(t, novel, events.PostImported{})
	answer := w.comment(t, novel, events.PostImported{
		ParentPostID: &first, Comment: &events.Comment{ExternalUUID: "u", Username: "n", Content: "Nobody\u202e did."},
	})
	w.project(t)
	for path, want := range map[string]map[string]string{
		"/novels/a": {
			"og:title": "A", "og:url": public + "/novels/a", "og:image": "https://covers.example/a.jpg",
			"og:description": "A boy finds a watch.",
			"canonical":      public + "/novels/a", "robots": "",
		},
		"/novels/a/discussion?post=" + answer.String(): {
			"og:title": "Discussion of A", "og:description": "Nobody did.",
			"canonical": public + "/novels/a/discussion?post=" + first.String(),
		},
	} {
		got := map[string]string{}
		for _, e := range checkPage(t, w, path) {
			got[e.attributes["property"]+e.attributes["name"]] = e.attributes["content"]
			if e.attributes["rel"] == "canonical" {
				got["canonical"] = e.attributes["href"]
			}
		}
		for name, value := range want {
			if got[name] != value {
				t.Errorf("%s: %s is %q, want %q", path, name, got[name], value)
			}
		}
	}
}

const logo = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 120 40" onload="document.title='ran'">` +
	`<script>document.title = 'ran'</script>` +
	`<rect width="120" height="40" fill="#206040"/></svg>`

// TestSite: the logo stands in the header in place of the name, and cannot run anything. Without covers, browsers load
// nothing from other hosts. A page without a cover has the logo as its picture.
func TestSite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.novel(t, "A", func(e *events.NovelCreated) { e.CoverURL = "https://covers.example/a.jpg" })
	w.project(t)
	for kind, content := range map[string]string{"image/svg+xml": logo, "image/png": "\x89PNG\x0d\x0a\x1a\x0a"} {
		made := testdb.Must(pages.NewLogo([]byte(content)))(t)
		site := w.site(t, pages.Site{Name: "Tales", Logo: made, NoCovers: true})
		src, preview := "", ""
		page := site.get(t, "/novels/a")
		for _, e := range elements(t, page.Body.String()) {
			switch a := e.attributes; {
			case e.Data == "img" && a["alt"] == "Tales":
				src = strings.TrimPrefix(a["src"], "/books")
			case e.Data == "img":
				t.Errorf("there is a picture %s", a["src"])
			case a["property"] == "og:image":
				preview = a["content"]
			}
		}
		if policy := page.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "img-src 'self';") ||
			preview != public+src {
			t.Errorf("%s at %q: %s, %s", kind, src, policy, preview)
		}
		got := site.get(t, src)
		h := got.Header()
		if got.Code != http.StatusOK || got.Body.String() != content || h.Get("Content-Type") != kind ||
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
		"nothing": "", "HTML": "<html><script>1</script></html>", "JPEG": "\xff\xd8\xff\xe0",
		"too large": logo + strings.Repeat(" ", pages.MaxLogo),
	} {
		if _, err := pages.NewLogo([]byte(content)); err == nil {
			t.Errorf("%s is taken as a logo", name)
		}
	}
}

func TestAssets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	checked := 0
	for _, e := range checkPage(t, w, "/novels") {
		path, ok := strings.CutPrefix(e.attributes["href"], "/books/assets/")
		if !ok {
			continue
		}
		checked++
		got := w.get(t, "/assets/"+path)
		if got.Code != http.StatusOK || got.Header().Get("Cache-Control") != "public, max-age=31536000, immutable" ||
			got.Body.Len() == 0 {
			t.Errorf("%s: %d %v", path, got.Code, got.Header())
		}
		stem, rest, _ := strings.Cut(path, ".")
		_, extension, _ := strings.Cut(rest, ".")
		if other := w.get(t, "/assets/"+stem+".000000000000."+extension); other.Code != http.StatusOK ||
			other.Header().Get("Cache-Control") != "no-cache" {
			t.Errorf("another digest of %s: %d %v", path, other.Code, other.Header())
		}
	}
	if checked != 2 {
		t.Errorf("%d assets", checked)
	}
}

// element is a parsed element with its attributes.
type element struct {
	*html.Node

	attributes map[string]string
}

// elements parses a page and returns its elements in document order.
func elements(t testing.TB, body string) []element {
	t.Helper()
	document := testdb.Must(html.Parse(strings.NewReader(body)))(t)
	var found []element
	for node := range document.Descendants() {
		if node.Type != html.ElementNode {
			continue
		}
		e := element{node, map[string]string{}}
		for _, a := range node.Attr {
			e.attributes[a.Key] = a.Val
		}
		found = append(found, e)
	}
	return found
}

func text(node *html.Node) string {
	var b strings.Builder
	for n := range node.Descendants() {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
		}
	}
	return b.String()
}

// shows reports whether an element, selected by name or by name and class, has exactly a text.
func shows(found []element, selector, want string) bool {
	name, class, _ := strings.Cut(selector, ".")
	for _, e := range found {
		if e.Data == name && (class == "" || e.attributes["class"] == class) &&
			strings.TrimPrefix(text(e.Node), "Discussion of ") == want {
			return true
		}
	}
	return false
}

// allowed are the only elements of pages. Text of partners adds none.
var allowed = strings.Fields(`html head meta title link body a header nav main h1 h2 h3 p span form label input button footer ol pre svg rect ul li div dl dt dd
	article section time bdi img code details summary`)

var allowedAttributes = strings.Fields(`lang charset name content property rel href type class aria-label aria-current aria-labelledby id tabindex
	action method role for value maxlength dir src alt loading decoding referrerpolicy width height datetime inputmode placeholder data-letter size pattern title open aria-hidden viewbox viewBox preserveaspectratio preserveAspectRatio`)

// checkPage parses a page and checks the rules for every page.
func checkPage(t testing.TB, w *world, path string) []element {
	t.Helper()
	got := w.get(t, path)
	const policy = "default-src 'none'; style-src 'self'; img-src 'self' https:; form-action 'self'; base-uri 'none'; " +
		"frame-ancestors 'none'"
	for name, want := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": policy,
		"Referrer-Policy": "strict-origin-when-cross-origin",
	} {
		if got.Header().Get(name) != want {
			t.Errorf("%s: %s is %q", path, name, got.Header().Get(name))
		}
	}
	found := elements(t, got.Body.String())
	ids, navigation, h1, level := map[string]bool{}, map[string]bool{}, 0, 0
	for _, e := range found {
		if !slices.Contains(allowed, e.Data) {
			t.Errorf("%s has a <%s>", path, e.Data)
		}
		for name := range e.attributes {
			if !slices.Contains(allowedAttributes, name) {
				t.Errorf("%s has <%s %s>", path, e.Data, name)
			}
		}
		if id := e.attributes["id"]; id != "" && ids[id] {
			t.Errorf("%s has two elements %s", path, id)
		} else {
			ids[id] = true
		}
		if given := e.attributes["lang"]; given != "" {
			if tag, err := language.Parse(given); err != nil || tag.String() != given {
				t.Errorf("%s has <%s lang=%q>, which is no canonical tag", path, e.Data, given)
			}
		}
		switch e.Data {
		case "nav":
			label := e.attributes["aria-label"]
			if label == "" || navigation[label] {
				t.Errorf("%s has no navigation of its own name %q", path, label)
			}
			navigation[label] = true
		case "html":
			if e.attributes["lang"] != "en" {
				t.Errorf("%s has no language", path)
			}
		case "h1", "h2", "h3":
			next := int(e.Data[1] - '0')
			if next > level+1 {
				t.Errorf("%s: a %s follows on level %d", path, e.Data, level)
			}
			if level = next; next == 1 {
				h1++
			}
		case "img":
			if !strings.HasPrefix(e.attributes["src"], "https://") || e.attributes["loading"] != "lazy" ||
				e.attributes["referrerpolicy"] != "no-referrer" {
				t.Errorf("%s: image %v", path, e.attributes)
			}
		case "time":
			if _, err := time.Parse(time.RFC3339, e.attributes["datetime"]); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	if h1 != 1 {
		t.Errorf("%s has %d first headings", path, h1)
	}
	if got.Code == http.StatusOK {
		checkLinks(t, w, path, found, ids)
	}
	return found
}

var post = regexp.MustCompile(`^post-[0-9a-f-]{36}$`)

// checkLinks follows every link within the platform.
func checkLinks(t testing.TB, w *world, path string, found []element, ids map[string]bool) {
	t.Helper()
	for _, e := range found {
		href := e.attributes["href"] + e.attributes["action"]
		target, err := url.Parse(href)
		switch {
		case href == "":
			continue
		case err != nil:
			t.Errorf("%s links to %q: %v", path, href, err)
			continue
		case target.Path == "" && target.Fragment != "":
			if !ids[target.Fragment] {
				t.Errorf("%s links to %s, which it does not have", path, href)
			}
			continue
		}
		inside, ok := strings.CutPrefix(strings.TrimPrefix(href, "https://host.example"), "/books")
		if !ok {
			t.Errorf("%s links to %s", path, href)
			continue
		}
		inside, _, _ = strings.Cut(inside, "#")
		got := w.followed[inside]
		if got == nil {
			got = w.get(t, inside)
			w.followed[inside] = got
		}
		if got.Code != http.StatusOK {
			t.Errorf("%s links to %s: %d", path, href, got.Code)
		}
		if post.MatchString(target.Fragment) && !strings.Contains(got.Body.String(), `id="`+target.Fragment+`"`) {
			t.Errorf("%s links to %s, where that is not", path, href)
		}
	}
}

// TestLanguages: the language of a title is a canonical tag for browsers, and a name for readers.
func TestLanguages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for original, want := range map[string]struct{ lang, name string }{
		"en": {"en", "English"}, "eng": {"en", "English"}, "ara": {"ar", "Arabic"},
		"pt-br":    {"pt-BR", "Brazilian Portuguese"},
		"zh_Hant":  {"zh-Hant", "Traditional Chinese"},
		"Japanese": {"", "Japanese"}, "Old Norse": {"", "Old Norse"}, "zz": {"", "zz"}, "und": {"", "und"}, "": {"", ""},
	} {
		plain := strings.NewReplacer(" ", "", "_", "").Replace(original)
		slug := fmt.Sprint("in-", len(original), "-", strings.ToLower(plain))
		w.novel(t, "In "+original, func(e *events.NovelCreated) { e.Slug, e.Language = slug, original })
		w.project(t)
		facts := ""
		for _, e := range checkPage(t, w, "/novels/"+slug) {
			switch {
			case e.Data == "h1" && e.attributes["lang"] != want.lang:
				t.Errorf("%q: lang is %q, want %q", original, e.attributes["lang"], want.lang)
			case e.Data == "dl":
				facts = text(e.Node)
			}
		}
		if _, name, _ := strings.Cut(facts, "Original language"); !strings.HasPrefix(strings.TrimSpace(name), want.name) ||
			(want.name == "") != (name == "") {
			t.Errorf("%q: readers see %q, want %q", original, facts, want.name)
		}
	}
}

// TestReference: the API reference loads only the description and one script from this host; the script has the digest
// on the page.
func TestReference(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	page := w.get(t, "/docs")
	const policy = "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; img-src 'self' data:; " +
		"connect-src 'self'; worker-src blob:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
	if h := page.Header(); page.Code != http.StatusOK || h.Get("Content-Security-Policy") != policy ||
		h.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("%d %v", page.Code, h)
	}
	scripts, descriptions, licenses := 0, 0, 0
	for _, e := range elements(t, page.Body.String()) {
		for _, name := range []string{"src", "href", "spec-url"} {
			address, ok := e.attributes[name]
			if !ok {
				continue
			}
			path, ok := strings.CutPrefix(address, "/books/")
			got := w.get(t, "/"+path)
			if !ok || got.Code != http.StatusOK {
				t.Errorf("<%s %s=%q> is %d", e.Data, name, address, got.Code)
			}
			switch e.Data {
			case "redoc":
				descriptions++
			case "script":
				scripts++
				digest := sha512.Sum384(got.Body.Bytes())
				if want := "sha384-" + base64.StdEncoding.EncodeToString(digest[:]); e.attributes["integrity"] != want {
					t.Errorf("%s has the digest %s, the page says %s", address, want, e.attributes["integrity"])
				}
				if h := got.Header(); h.Get("Content-Type") != "text/javascript; charset=utf-8" ||
					h.Get("Cache-Control") != "public, max-age=31536000, immutable" {
					t.Errorf("%s: %v", address, h)
				}
			case "link":
				if e.attributes["rel"] == "license" {
					licenses++
				}
			}
		}
	}
	if scripts != 1 || descriptions != 1 || licenses != 1 {
		t.Errorf("%d scripts, %d descriptions, %d licences\n%s", scripts, descriptions, licenses, page.Body)
	}
}

func TestDescriptionNamesTheAddress(t *testing.T) {
	t.Parallel()
	if got := newWorld(t).get(t, "/openapi.yaml").Body.String(); !strings.Contains(got, "default: "+public+"\n") {
		t.Errorf("openapi.yaml does not name %s", public)
	}
}
