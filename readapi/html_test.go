package readapi_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/text/language"

	"novelgate/events"
)

// element is a parsed element with its attributes.
type element struct {
	*html.Node

	attributes map[string]string
}

// elements parses a page and returns its elements in document order.
func elements(t testing.TB, body string) []element {
	t.Helper()
	document, err := html.Parse(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
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

// allowed are all elements that a page may have. What partners send adds none.
var allowed = strings.Fields(`html head meta title link body a header nav main h1 h2 h3 p span form label input button ul li div dl dt dd
	article section time bdi img code`)

var allowedAttributes = strings.Fields(`lang charset name content property rel href type class aria-label aria-current aria-labelledby id tabindex
	action method role for value maxlength dir src alt loading decoding referrerpolicy width height datetime inputmode size pattern title`)

// checkPage parses a page and fails unless it is what every page must be.
func checkPage(t testing.TB, w *world, path string) []element {
	t.Helper()
	got := w.get(t, path)
	const policy = "default-src 'none'; style-src 'self'; img-src 'self' https:; form-action 'self'; base-uri 'none'; " +
		"frame-ancestors 'none'"
	for name, want := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff",
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
		got := w.get(t, inside)
		if got.Code != http.StatusOK {
			t.Errorf("%s links to %s: %d", path, href, got.Code)
		}
		if post.MatchString(target.Fragment) && !strings.Contains(got.Body.String(), `id="`+target.Fragment+`"`) {
			t.Errorf("%s links to %s, where that is not", path, href)
		}
	}
}

// TestLanguages: a title says in which language it is, in the one form that browsers know; readers see the name.
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
