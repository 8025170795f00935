package readapi_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/readapi"
)

// randomDiscussion appends comments of several authors under changing names, deep and wide, some with equal times, and
// edits of the novel.
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

// walk reads a whole discussion, page by page, with all replies, and checks every page.
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

// same compares a discussion with a fold of the log.
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

// TestThePastIsReadAsItWas compares pages of every past time with a fold of the log up to it.
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

var moment = time.Date(2025, 3, 1, 12, 0, 0, 1000, time.UTC)

func TestBeside(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse
	for _, c := range []struct {
		id, after, before string
		later, earlier    time.Duration
	}{
		{
			"00000000-0000-0000-0000-000000000100", "00000000-0000-0000-0000-000000000101",
			"00000000-0000-0000-0000-0000000000ff", 0, 0,
		},
		{
			"00000000-0000-0000-0000-00000000ffff", "00000000-0000-0000-0000-000000010000",
			"00000000-0000-0000-0000-00000000fffe", 0, 0,
		},
		{
			"ffffffff-ffff-ffff-ffff-ffffffffffff", "00000000-0000-0000-0000-000000000000",
			"ffffffff-ffff-ffff-ffff-fffffffffffe", time.Microsecond, 0,
		},
		{
			"00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000001",
			"ffffffff-ffff-ffff-ffff-ffffffffffff", 0, -time.Microsecond,
		},
	} {
		if at, got := readapi.Beside(moment, id(c.id), true); got != id(c.after) || !at.Equal(moment.Add(c.later)) {
			t.Errorf("behind %s is %v %s", c.id, at, got)
		}
		if at, got := readapi.Beside(moment, id(c.id), false); got != id(c.before) || !at.Equal(moment.Add(c.earlier)) {
			t.Errorf("before %s is %v %s", c.id, at, got)
		}
	}
}

func TestCursorsComeBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := time.UnixMicro(rapid.Int64Range(-62_135_596_800_000_000, 253_402_300_799_999_999).Draw(t, "at")).UTC()
		depth := rapid.IntRange(0, 1<<30).Draw(t, "depth")
		id := uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		gotAt, gotDepth, gotID, err := readapi.Cursor(at, depth, id)
		if err != nil || !gotAt.Equal(at) || gotDepth != depth || gotID != id {
			t.Errorf("%v %d %s became %v %d %s, %v", at, depth, id, gotAt, gotDepth, gotID, err)
		}
	})
}

// holds reports whether a page has a comment, and returns it.
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

// bigDiscussion has threads of every shape: many single comments, a chain, a fan.
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
	testdb.SkipShort(t)
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
		address := testdb.Must(url.Parse(read[postAnswer](t, w, "/api/posts/"+id.String()).URL))(t)
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

// TestCommentsThatTheProjectionLacks: a link to a comment works before the projections have applied it.
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

// TestAPageBeginsAtOnePlace: a cursor together with a comment is refused.
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
