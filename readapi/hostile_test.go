package readapi_test

import (
	"encoding/xml"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/internal/testdb"
)

// hostileTitles are texts that a page must show unchanged, except for characters that HTML forbids.
var hostileTitles = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`,
	`</title></textarea></style></script>--><svg/onload=alert(1)>`,
	`javascript:alert(1)`, `{{.Body}} ${7*7} <%= 7 %>`, "&lt;b&gt; &amp;amp; &#x3c;", "\u202egnp.exe \u2066\u2067",
	"\u200d\u200b\ufeff.", "👩‍👩‍👧‍👦🏳️‍🌈",
	strings.Repeat("W", 300), "a" + strings.Repeat("\u0301", 250), "tab\tline\u2028end\u0085", "\x01\x7f\x1b[31m",
	"ألف ليلة", "% + ? # / \\ ;",
}

// hostile are such texts, also too long ones for a title.
var hostile = append(slices.Clone(hostileTitles),
	"Z"+strings.Repeat("\u0335\u0327", 2500), strings.Repeat("32 KB of it. ", 1500))

// username returns the beginning of a text that fits into the name of a user.
func username(text string) string {
	characters := []rune(text)
	return string(characters[:min(50, len(characters))])
}

func TestHostileTextIsText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := make([]uuid.UUID, len(hostile))
	for i, content := range hostile {
		word := hostileTitles[i%len(hostileTitles)]
		novel := w.novel(t, word+strings.Repeat("!", i/len(hostileTitles)), func(e *events.NovelCreated) {
			e.Author, e.Synopsis, e.Genres, e.Language, e.CoverURL = word, word, []string{username(word)}, username(word),
				"https://covers.example/a.jpg?x='&y=1"
			if e.Slug = fmt.Sprint("novel-", i); i >= len(hostileTitles) {
				e.Title = string([]rune(content)[:200])
			}
		})
		comment := &events.Comment{ExternalUUID: word, Username: username(word), Content: content}
		ids[i] = w.comment(t, novel, events.PostImported{Comment: comment})
		w.comment(t, novel, events.PostImported{ParentPostID: &ids[i], Comment: comment})
	}
	w.project(t)
	for i, content := range hostile {
		word := hostileTitles[i%len(hostileTitles)]
		path := fmt.Sprint("/novels/novel-", i)
		shown := checkPage(t, w, path)
		if want := normalise(word); !shows(shown, "h1", want) && i < len(hostileTitles) || !shows(shown, "bdi", want) ||
			!shows(shown, "div.text", want) {
			t.Errorf("the page of the novel does not show %q", word)
		}
		shown = checkPage(t, w, path+"/discussion?post="+ids[i].String())
		if !shows(shown, "div.text", normalise(content)) || !shows(shown, "bdi", normalise(username(word))) {
			t.Errorf("the discussion does not show %.100q", content)
		}
	}
	for _, word := range hostileTitles {
		testdb.Exec(t, w.General, `UPDATE integrations SET name = $1`, word)
		if shown := elements(t, w.get(t, "/novels/novel-0/discussion").Body.String()); !shows(shown, "span.from",
			"via "+normalise(word)) {
			t.Errorf("the discussion does not show that the comment comes from %q", word)
		}
	}
	w.exec(t, `UPDATE integrations SET name = $1`, `<b>"Fan" Site`)
	checkPage(t, w, "/novels?limit=100")
	for _, text := range hostileTitles {
		checkPage(t, w, "/novels?q="+url.QueryEscape(text)+"&owner="+url.QueryEscape(text))
	}
}

// normalise replaces line ends as an HTML parser does, and the characters that HTML forbids.
func normalise(text string) string {
	return strings.Map(func(r rune) rune {
		if forbidden(r) {
			return '\ufffd'
		}
		return r
	}, strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text))
}

// forbidden reports whether neither a page nor a feed may have r (https://html.spec.whatwg.org/#text-content).
func forbidden(r rune) bool {
	return unicode.IsControl(r) && !strings.ContainsRune("\t\n\r", r) || unicode.Is(unicode.Noncharacter_Code_Point, r)
}

// TestForbiddenCharacters: whatever characters partners send, pages and feeds have only those that HTML and XML allow.
// The JSON has what was sent.
func TestForbiddenCharacters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var all strings.Builder
	for r := rune(1); r < 0xa0; r++ {
		all.WriteRune(r)
	}
	for plane := rune(0); plane <= unicode.MaxRune; plane += 0x10000 {
		all.WriteString(string([]rune{plane | 0xfffd, plane | 0xfffe, plane | 0xffff}))
	}
	for r := rune(0xfdcf); r <= 0xfdf0; r++ { // with the characters before and after the noncharacters
		all.WriteRune(r)
	}
	content := all.String() + "\u00a0\ud7ff\ue000\U00010000"
	short := "\x01\x7f\u0085\ufffe\ufdd0\U0010ffff é"
	novel := w.novel(t, "A"+short, func(e *events.NovelCreated) {
		e.Slug, e.Author, e.Synopsis, e.Genres, e.Language = "a", short, content, []string{short}, short
	})
	comment := &events.Comment{ExternalUUID: "u", Username: short, Content: content}
	w.comment(t, novel, events.PostImported{Comment: comment})
	w.project(t)
	w.exec(t, `UPDATE integrations SET name = $1`, short)
	for _, path := range []string{
		"/", "/novels", "/novels?genre=" + url.QueryEscape(short) + "&q=" + url.QueryEscape(short), "/novels/a",
		"/novels/a/discussion", "/novels/a/discussion?chapter=" + url.QueryEscape(short), "/feed.atom", "/novels/a/feed.atom",
	} {
		for _, r := range w.get(t, path).Body.String() {
			if forbidden(r) {
				t.Errorf("%s has %U", path, r)
			}
		}
	}
	if shown := checkPage(t, w, "/novels/a/discussion"); !shows(shown, "div.text", normalise(content)) ||
		!shows(shown, "bdi", normalise(short)) {
		t.Error("the discussion does not show the allowed characters")
	}
	var feed struct {
		Entries []struct {
			Content string `xml:"content"`
		} `xml:"entry"`
	}
	before, after, _ := strings.Cut(content, "\r") // which XML escapes and therefore keeps
	want := normalise(before) + "\r" + normalise(after)
	if err := xml.Unmarshal(w.get(t, "/feed.atom").Body.Bytes(), &feed); err != nil || len(feed.Entries) != 1 ||
		feed.Entries[0].Content != want {
		t.Errorf("the feed has %q, %v", feed.Entries, err)
	}
	if got := read[discussionAnswer](t, w, "/api/novels/a/discussion"); *got.Items[0].Content != content ||
		got.Items[0].Author.DisplayName != short {
		t.Errorf("the JSON has %q by %q", *got.Items[0].Content, got.Items[0].Author.DisplayName)
	}
}
