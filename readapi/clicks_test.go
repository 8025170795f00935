//go:build look

package readapi_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/readapi/pages"
)

// step is what a reader does: types into a field, or clicks on the link, button or summary with a text in an element.
type step struct{ within, text, typed string }

// do takes a step. A click on a link or a button opens a page.
func (b *browser) do(t *testing.T, s step) {
	t.Helper()
	quoted := testdb.Must(json.Marshal([]string{s.within, s.text, s.typed}))(t)
	b.log, b.loaded = nil, false
	// 0: there is nothing to click on; 1: it opens a page; 2: it does not
	done := b.evaluate(t, fmt.Sprintf(`(([within, text, typed]) => {
		if (typed) { document.querySelector(within).value = typed; return 2 }
		const e = [...document.querySelectorAll(within + ' a, ' + within + ' button, ' + within + ' summary')]
			.find(e => e.textContent.trim() == text && e.checkVisibility());
		if (!e) return 0;
		e.click();
		return e.localName == 'summary' ? 2 : 1 })(%s)`, quoted))
	if done == 0 {
		t.Fatalf("there is no %q in %s", s.text, s.within)
	}
	for done == 1 && !b.loaded {
		b.receive(t)
	}
}

// TestTwoClicks: what readers look for is at most two clicks away from the start page.
func TestTwoClicks(t *testing.T) {
	w, now := newWorld(t), time.Now().UTC().Truncate(time.Minute)
	novel := w.novel(t, "The Clockmaker’s Apprentice", func(e *events.NovelCreated) {
		e.Genres, e.Language, e.Slug = []string{"Mystery"}, "zh", "clock"
	})
	for i := range 20 { // more than a page of the list has
		id := w.novel(t, fmt.Sprint("Other ", i), func(e *events.NovelCreated) { e.Genres = []string{"Fantasy"} })
		w.comment(t, id, events.PostImported{WrittenAt: now.AddDate(0, 0, -3-i)})
	}
	say := func(ago time.Duration, chapter, text string, parent uuid.UUID) uuid.UUID {
		e := events.PostImported{
			WrittenAt: now.Add(-ago), Comment: &events.Comment{ExternalUUID: text, Username: "Ida", Content: text},
		}
		if chapter != "" {
			e.ChapterNumber = []byte(chapter)
		}
		if parent != uuid.Nil {
			e.ParentPostID = &parent
		}
		return w.comment(t, novel, e)
	}
	first := say(48*time.Hour, "1", "The first comment.", uuid.Nil)
	for i := range 30 {
		say(40*time.Hour, "2", fmt.Sprint("Comment in between ", i), uuid.Nil)
	}
	say(30*time.Hour, "12", "Chapter twelve is dark.", uuid.Nil)
	exchange := []uuid.UUID{first, say(4*time.Hour, "", "Who made the watch?", uuid.Nil)}
	for i := range 24 {
		exchange = append(exchange, say(3*time.Hour, "", fmt.Sprint("Answer number ", i), exchange[1]))
	}
	say(2*time.Hour, "", "The answer to your question.", exchange[1])
	w.project(t)
	home, b := serve(t, w, pages.Site{}), openBrowser(t)

	const title, latest = "The Clockmaker’s Apprentice", "#main section[aria-labelledby=latest] li:first-child"
	has := func(selector, text string) string {
		return fmt.Sprintf("[...document.querySelectorAll('%s')].some(e => e.textContent.includes('%s'))", selector, text)
	}
	for name, c := range map[string]struct {
		steps []step
		shown string // holds then
	}{
		"a novel by half its name": {
			[]step{{"#q", "", "OCKMAKER’s App"}, {"#main", "Search", ""}, {"#main .book", title, ""}}, has("h1", title),
		},
		"what is new since yesterday": {
			[]step{{"header", "Novels", ""}},
			has(".book:first-child", "2 hours ago") + " && " + has(".book:nth-child(2)", "3 days ago"),
		},
		"comments on chapter 12 of a novel": {
			[]step{{latest, title, ""}, {"#main .chart", "Chapter 12", ""}},
			has(".post", "Chapter twelve") + " && document.querySelectorAll('.post').length == 1",
		},
		"the answer to my comment": {
			[]step{{latest, "2 hours ago", ""}},
			has(".post:target", "The answer to your question.") + " && " + has(".post:first-of-type", "Who made the watch?"),
		},
		"the whole exchange under a comment": {
			[]step{{latest, "2 hours ago", ""}, {"#main", "All replies from the first", ""}},
			"document.querySelectorAll('.post').length == 26 && " + has(".post", "Answer number 0") + " && " +
				has(".post", "The answer to your question."),
		},
		"the newest comment of a novel": {
			[]step{{"#main section[aria-labelledby=discussed]", title, ""}, {"#main", "Jump to the latest", ""}},
			has(".post:target", "The answer to your question."),
		},
		"novels of a genre": {
			[]step{{"header", "Novels", ""}, {"#main .book", "Mystery", ""}},
			has(".book", title) + " && document.querySelectorAll('.book').length == 1",
		},
		"novels in a language": {
			[]step{{"header", "Novels", ""}, {"#language", "", "ZH"}, {"#main", "Search", ""}},
			has(".book", title) + " && document.querySelectorAll('.book').length == 1",
		},
		"a discussion from the oldest comment": {
			[]step{{"#main section[aria-labelledby=discussed]", title, ""}, {"#main", "Oldest first", ""}},
			has(".post:first-of-type", "The first comment."),
		},
		"the feed of a novel": {
			[]step{{latest, title, ""}},
			"fetch([...document.links].find(a => a.textContent == 'Feed of comments').href) && " +
				"[...document.links].some(a => a.textContent == 'Feed of comments' && a.pathname == '/novels/clock/feed.atom')",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b.open(t, home+"/", 1280, 900, "light")
			clicks := 0
			for _, s := range c.steps {
				if b.do(t, s); s.typed == "" {
					clicks++
				}
			}
			if clicks > 2 {
				t.Errorf("it takes %d clicks", clicks)
			}
			if b.evaluate(t, "Number("+c.shown+")") != 1 {
				t.Errorf("%s is not shown", name)
				save(t, "clicks-"+strings.ReplaceAll(name, " ", "-")+".png", b.screenshot(t))
			}
		})
	}
}
