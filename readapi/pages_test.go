package readapi_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"novelgate/events"
)

// hostile are texts that a page must show as they are. The last two are too long for a title.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`,
	`</title></textarea></style>--><svg/onload=alert(1)>`,
	`javascript:alert(1)`, `{{.Body}} ${7*7} <%= 7 %>`, "&lt;b&gt; &amp;amp; &#x3c;", "\u202egnp.exe \u2066\u2067",
	"\u200d\u200b\ufeff.", "👩‍👩‍👧‍👦🏳️‍🌈",
	strings.Repeat("W", 300), "a" + strings.Repeat("\u0301", 250), "tab\tline\u2028end\u0085", "\x01\x7f\x1b[31m",
	"ألف ليلة", "% + ? # / \\ ;",
	"Z" + strings.Repeat("\u0335\u0327", 2500), strings.Repeat("32 KB of it. ", 1500),
}

func TestHostileTextIsText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, content := range hostile {
		word := hostile[i%16]
		short := string([]rune(word)[:min(50, len([]rune(word)))])
		novel := w.novel(t, word+strings.Repeat("!", i/len(hostile[:16])), func(e *events.NovelCreated) {
			e.Author, e.Synopsis, e.Genres, e.Language, e.CoverURL = word, word, []string{short}, short,
				"https://covers.example/a.jpg?x='&y=1"
			e.Slug = "novel-" + string(rune('a'+i))
			if i >= 16 {
				e.Title = string([]rune(content)[:200])
			}
		})
		comment := &events.Comment{ExternalUUID: "u", Username: short, Content: content}
		id := w.comment(t, novel, events.PostImported{Comment: comment})
		w.comment(t, novel, events.PostImported{ParentPostID: &id, Comment: comment})
		w.project(t)
		w.exec(t, `UPDATE integrations SET name = $1`, word)
		slug := "novel-" + string(rune('a'+i))
		shown := checkPage(t, w, "/novels/"+slug)
		if want := normalise(word); !shows(shown, "h1", want) && i < 16 || !shows(shown, "bdi", want) ||
			!shows(shown, "div.text", want) {
			t.Errorf("the page of the novel does not show %q", word)
		}
		shown = checkPage(t, w, "/novels/"+slug+"/discussion?post="+id.String())
		if !shows(shown, "div.text", normalise(content)) || !shows(shown, "bdi", normalise(short)) {
			t.Errorf("the discussion does not show %.100q", content)
		}
		if !shows(shown, "span.from", "via "+normalise(word)) {
			t.Errorf("the discussion does not show that the comment comes from %q", word)
		}
	}
	w.exec(t, `UPDATE integrations SET name = $1`, `<b>"Fan" Site`)
	checkPage(t, w, "/novels?limit=100")
	for _, text := range hostile[:16] {
		if strings.ContainsRune(text, 0) {
			continue
		}
		checkPage(t, w, "/novels?q="+url.QueryEscape(text)+"&owner="+url.QueryEscape(text))
	}
}

// normalise is what an HTML parser makes of the line ends of a text.
func normalise(text string) string {
	return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
}

// shows reports whether one of the elements, by name or by name and class, has exactly a text.
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
		"/novels/a?asOf=2999-01-01T00:00:00Z", "/novels/a/discussion", "/novels/a/discussion?sort=oldest&limit=3",
		"/novels/empty/discussion",
		"/novels/a/discussion?chapter=none&limit=5", "/novels/a/discussion?chapter=7",
		"/novels/a/discussion?asOf=2999-01-01T01:00:00%2B01:00&limit=4",
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
		"/novels/a?asOf=2999-01-01T00:00:00Z": {"canonical": public + "/novels/a", "robots": "noindex"},
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
