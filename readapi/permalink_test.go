package readapi_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"novelgate/events"
)

// holds reports whether a page shows a comment, and as which.
func holds(page discussionAnswer, id uuid.UUID) (postAnswer, bool) {
	for _, item := range page.Items {
		for _, p := range append([]postAnswer{item}, item.Replies...) {
			if p.PostID == id {
				return p, true
			}
		}
	}
	return postAnswer{}, false
}

// bigDiscussion has threads of every shape: many alone, a chain, a fan.
func bigDiscussion(t testing.TB, w *world) []uuid.UUID {
	t.Helper()
	novel := w.novel(t, "A", nil)
	var all []uuid.UUID
	add := func(e events.PostImported) uuid.UUID {
		id := w.comment(t, novel, e)
		all = append(all, id)
		return id
	}
	for range 30 {
		add(events.PostImported{})
	}
	chain, fan := add(events.PostImported{}), add(events.PostImported{})
	for range 25 {
		add(reply(fan))
		chain = add(reply(chain))
	}
	return all
}

func TestEveryCommentIsOnThePageThatItsAddressOpens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := bigDiscussion(t, w)
	w.project(t)
	for _, id := range all {
		for _, sort := range []string{"", "&sort=oldest"} {
			page := read[discussionAnswer](t, w, "/api/novels/a/discussion?limit=5&post="+id.String()+sort)
			p, ok := holds(page, id)
			if !ok {
				t.Fatalf("%s is not on its page", id)
			}
			if page.Items[0].PostID != id && p.Depth == 0 {
				t.Errorf("%s does not begin its page", id)
			}
		}
		address, err := url.Parse(read[postAnswer](t, w, "/api/posts/"+id.String()).URL)
		if err != nil {
			t.Fatal(err)
		}
		got := w.get(t, strings.TrimPrefix(address.RequestURI(), "/books"))
		if got.Code != http.StatusOK || !strings.Contains(got.Body.String(), `id="`+address.Fragment+`"`) {
			t.Fatalf("%s opens a page without it: %d", address, got.Code)
		}
	}
	first := read[discussionAnswer](t, w, "/api/novels/a/discussion?limit=5&sort=oldest&post="+all[0].String())
	second := read[discussionAnswer](t, w, "/api/novels/a/discussion?limit=5&sort=oldest&post="+all[1].String())
	if first.PreviousCursor != nil || second.PreviousCursor == nil {
		t.Error("what comes before a page is not as it is")
	}
	wantProblem(t, w, "/api/novels/a/discussion?post="+uuid.NewString(), 404, "not_found")
	wantProblem(t, w, "/api/novels/a/discussion?under="+all[40].String(), 404, "not_found")
}

// The address of a comment is valid before its projection has come by, whatever else that lacks.
func TestCommentsThatTheProjectionLacks(t *testing.T) {
	t.Parallel()
	for name, projected := range map[string]int{
		"nothing is projected": 0, "the first is projected": 1, "two are": 2, "all are": 4,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			novel := w.novel(t, "A", nil)
			w.novel(t, "Other", nil)
			var chain []uuid.UUID
			e := events.PostImported{ChapterNumber: []byte("2.5")}
			for i := range 4 {
				chain = append(chain, w.comment(t, novel, e))
				e = reply(chain[i])
				if i+1 == projected {
					w.project(t)
				}
			}
			for depth, id := range chain {
				p := read[postAnswer](t, w, "/api/posts/"+id.String())
				if p.Depth != depth || p.Content == nil || p.Author == nil || p.Author.DisplayName != "Marlow" ||
					p.Author.Platform != "Fan Site" {
					t.Errorf("comment %d: %+v by %+v", depth, p, p.Author)
				}
				page := read[discussionAnswer](t, w, "/api/novels/a/discussion?post="+id.String())
				if found, ok := holds(page, id); !ok || found.Depth != depth || page.Items[0].PostID != chain[0] {
					t.Errorf("comment %d is not in its place: %+v", depth, page)
				}
				if got := w.get(t, "/novels/a/discussion?post="+id.String()); !strings.Contains(got.Body.String(),
					`id="post-`+id.String()) {
					t.Errorf("comment %d is not on its page", depth)
				}
				wantProblem(t, w, "/api/novels/other/discussion?post="+id.String(), 404, "not_found")
				early := url.QueryEscape(w.log[1].RecordedAt.Format(time.RFC3339Nano))
				wantProblem(t, w, "/api/novels/a/discussion?asOf="+early+"&post="+id.String(), 404, "not_found")
			}
			wantProblem(t, w, "/api/posts/"+novel.String(), 404, "not_found")
		})
	}
}

func TestRepliesArePagedUnderTheirComment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := bigDiscussion(t, w)
	w.project(t)
	fan := all[31]
	page := read[discussionAnswer](t, w, "/api/novels/a/discussion?limit=7&under="+fan.String())
	if len(page.Items) != 1 || len(page.Items[0].Replies) != 7 || page.Items[0].RepliesCursor == nil ||
		page.NextCursor != nil || page.PreviousCursor != nil {
		t.Errorf("%+v", page)
	}
	inline := read[discussionAnswer](t, w, "/api/novels/a/discussion?limit=1&post="+fan.String())
	if len(inline.Items[0].Replies) != 10 || inline.Items[0].RepliesCursor == nil {
		t.Errorf("%+v", inline)
	}
	top, found := walk(t, w, url.Values{})
	if len(top) != 32 || len(found) != 82 {
		t.Errorf("%d top-level comments and %d in all", len(top), len(found))
	}
}

// TestAPageBeginsAtOnePlace: of a cursor and a comment, neither is passed over.
func TestAPageBeginsAtOnePlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	novel := w.novel(t, "A", nil)
	var last uuid.UUID
	for range 3 {
		last = w.comment(t, novel, events.PostImported{})
	}
	w.project(t)
	page := read[discussionAnswer](t, w, "/api/novels/a/discussion?limit=1&post="+last.String())
	if page.NextCursor == nil {
		t.Fatal("no page follows")
	}
	query := "/novels/a/discussion?limit=1&cursor=" + *page.NextCursor
	if next := read[discussionAnswer](t, w, "/api"+query); len(next.Items) != 1 || next.Items[0].PostID == last {
		t.Errorf("the page after that of %s: %+v", last, next.Items)
	}
	query += "&post=" + last.String()
	for _, path := range []string{"/api" + query, query} {
		if got := w.get(t, path); got.Code != http.StatusBadRequest ||
			!strings.Contains(got.Body.String(), "post: cannot be given together with cursor") {
			t.Errorf("GET %s: %d %s", path, got.Code, got.Body)
		}
	}
}
