package readapi_test

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/events"
)

// randomDiscussion appends comments of several authors under changing names, deep and wide, some dated alike, and edits
// of the novel.
func randomDiscussion(t testing.TB, w *world, seed uint64, n int) (novel uuid.UUID) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, seed))
	novel, other := w.novel(t, "A", nil), w.novel(t, "Other", nil)
	var ids []uuid.UUID
	for i := range n {
		e := events.PostImported{WrittenAt: start.Add(time.Duration(random.IntN(n)) * time.Second), Comment: &events.Comment{
			ExternalUUID: fmt.Sprintf("user-%d", random.IntN(4)), Username: fmt.Sprintf("Name %d", random.IntN(5)),
			Content: fmt.Sprintf("Text %d.", i),
		}}
		switch random.IntN(10) {
		case 0:
			w.comment(t, other, e)
			continue
		case 1:
			author, synopsis := fmt.Sprintf("Author %d", i), fmt.Sprintf("Synopsis %d", i)
			w.append(t, events.NovelStream, novel, events.NovelUpdated{Author: &author, Synopsis: &synopsis})
			continue
		case 2, 3, 4, 5, 6:
			if len(ids) > 0 {
				e.ParentPostID = &ids[max(random.IntN(len(ids)), random.IntN(len(ids)))]
			}
		default: // top-level
		}
		ids = append(ids, w.comment(t, novel, e))
	}
	w.project(t)
	return novel
}

// walk reads a whole discussion, page by page, and all replies, and checks what every page promises.
func walk(t testing.TB, w *world, query url.Values) (top []uuid.UUID, all map[uuid.UUID]postAnswer) {
	t.Helper()
	all = map[uuid.UUID]postAnswer{}
	get := func(pairs ...string) discussionAnswer {
		q := url.Values{}
		for name, values := range query {
			q[name] = values
		}
		for i := 0; i < len(pairs); i += 2 {
			q.Set(pairs[i], pairs[i+1])
		}
		return read[discussionAnswer](t, w, "/api/novels/a/discussion?"+q.Encode())
	}
	take := func(p postAnswer) {
		if _, twice := all[p.PostID]; twice {
			t.Errorf("comment %s is shown twice", p.PostID)
		}
		all[p.PostID] = p
	}
	top = []uuid.UUID{}
	var before *discussionAnswer
	for page := get(); ; {
		for _, item := range page.Items {
			top = append(top, item.PostID)
			take(item)
			for thread := item; ; {
				for _, r := range thread.Replies {
					if _, ok := all[*r.ParentPostID]; !ok {
						t.Errorf("reply %s comes before what it replies to", r.PostID)
					}
					take(r)
				}
				if thread.RepliesCursor == nil {
					break
				}
				thread = get("under", item.PostID.String(), "cursor", *thread.RepliesCursor).Items[0]
			}
		}
		if before != nil {
			back := get("cursor", *page.PreviousCursor)
			if diff := cmp.Diff(before, &back); diff != "" {
				t.Errorf("the page before is another one now (-then +now):\n%s", diff)
			}
		} else if page.PreviousCursor != nil {
			t.Error("there is a page before the first")
		}
		if page.NextCursor == nil {
			return top, all
		}
		last := page
		before, page = &last, get("cursor", *page.NextCursor)
	}
}

// same fails unless what was read is what folding the log says.
func same(t testing.TB, want map[uuid.UUID]naivePost, got map[uuid.UUID]postAnswer) {
	t.Helper()
	if len(want) != len(got) {
		t.Errorf("%d comments, want %d", len(got), len(want))
	}
	for id, w := range want {
		g, ok := got[id]
		if !ok || g.Content == nil || g.Author == nil {
			t.Errorf("comment %s: %+v", id, g)
			continue
		}
		if *g.Content != w.content || g.Depth != w.depth || g.Author.DisplayName != w.name ||
			g.Author.Platform != "Fan Site" || !cmp.Equal(g.ParentPostID, w.parent) {
			t.Errorf("comment %s: %+v by %+v, want %+v", id, g, g.Author, w)
		}
	}
}

func TestDiscussionIsReadWhole(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		w := newWorld(t)
		novel := randomDiscussion(t, w, seed, 60)
		want := naiveDiscussion(w.log, novel, time.Now().Add(time.Hour))
		for _, sort := range []string{"newest", "oldest"} {
			for _, limit := range []string{"1", "3", "7", "100"} {
				top, all := walk(t, w, url.Values{"sort": {sort}, "limit": {limit}})
				if diff := cmp.Diff(tops(want, sort == "newest"), top); diff != "" {
					t.Errorf("%s, %s a page (-want +got):\n%s", sort, limit, diff)
				}
				same(t, want, all)
			}
		}
	}
}

// TestThePastIsReadAsItWas compares with folding the log up to every moment at which something happened.
func TestThePastIsReadAsItWas(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		w := newWorld(t)
		novel := randomDiscussion(t, w, 100+seed, 40)
		for i, recorded := range w.log {
			asOf := recorded.RecordedAt
			query := "?asOf=" + url.QueryEscape(asOf.Format(time.RFC3339Nano))
			author, synopsis, exists := naiveNovel(w.log, novel, asOf)
			if !exists {
				wantProblem(t, w, "/api/novels/a"+query, 404, "not_found")
				wantProblem(t, w, "/api/novels/a/discussion"+query, 404, "not_found")
				continue
			}
			if got := read[novelAnswer](t, w, "/api/novels/a"+query); got.Author != author || got.Synopsis != synopsis {
				t.Errorf("after %d events: %q, %q; want %q, %q", i+1, got.Author, got.Synopsis, author, synopsis)
			}
			want := naiveDiscussion(w.log, novel, asOf)
			top, all := walk(t, w, url.Values{"asOf": {asOf.Format(time.RFC3339Nano)}, "limit": {"6"}})
			if diff := cmp.Diff(tops(want, true), top); diff != "" {
				t.Errorf("after %d events (-want +got):\n%s", i+1, diff)
			}
			same(t, want, all)
		}
	}
}

func TestChapterFilter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	novel := w.novel(t, "A", nil)
	on := map[string][]uuid.UUID{}
	for _, chapter := range []string{"", "0", "2.5", "", "2.50", "12", "2.5"} {
		e := events.PostImported{}
		if chapter != "" {
			e.ChapterNumber = []byte(chapter)
		}
		on[chapter] = append(on[chapter], w.comment(t, novel, e))
	}
	under := w.comment(t, novel, reply(on["12"][0]))
	w.project(t)
	for chapter, want := range map[string][]uuid.UUID{
		"none": on[""], "0": on["0"], "2.5": {on["2.5"][0], on["2.50"][0], on["2.5"][1]},
		"02.500": {on["2.5"][0], on["2.50"][0], on["2.5"][1]}, "12": on["12"], "3": {},
	} {
		top, all := walk(t, w, url.Values{"chapter": {chapter}, "sort": {"oldest"}, "limit": {"1"}})
		if diff := cmp.Diff(want, top); diff != "" {
			t.Errorf("chapter %s (-want +got):\n%s", chapter, diff)
		}
		if _, ok := all[under]; ok != (chapter == "12") {
			t.Errorf("chapter %s: the reply came along: %v", chapter, ok)
		}
	}
}
