package readapi_test

import (
	order "cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/internal/testdb"
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
				here := map[uuid.UUID]bool{}
				for i := len(thread.Replies) - 1; i >= 0; i-- {
					r := thread.Replies[i]
					if here[r.PostID] = true; here[*r.ParentPostID] {
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
		want := naiveDiscussion(w.log, novel)
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

// TestUpToAChapter: neither comments nor replies on later chapters are read, and links of the page keep the filter.
// Those without a chapter stay. A link to a comment on a later chapter shows all.
func TestUpToAChapter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	novel := w.novel(t, "A", nil)
	on := map[string]uuid.UUID{}
	for _, c := range []struct{ name, chapter, parent string }{
		{"later", "12", ""},
		{"prologue", "0", ""},
		{"two", "2", ""},
		{"none", "", ""},
		{"half", "2.5", ""},
		{"last", "13", ""},
		{"spoiler", "3", "two"},
		{"answer", "", "two"},
		{"reply to later", "", "later"},
	} {
		var e events.PostImported
		if c.parent != "" {
			e = reply(on[c.parent])
		}
		if c.chapter != "" {
			e.ChapterNumber = []byte(c.chapter)
		}
		on[c.name] = w.comment(t, novel, e)
	}
	for range 12 { // more than a page has of one comment
		w.comment(t, novel, events.PostImported{ParentPostID: new(on["two"]), ChapterNumber: []byte("4")})
	}
	w.project(t)
	names := map[uuid.UUID]string{}
	for name, id := range on {
		names[id] = name
	}
	for query, want := range map[string]string{
		"upTo=2.50": "prologue two none half answer", "upTo=2.5&sort=oldest": "prologue two none half answer",
		"upTo=0": "prologue none", "upTo=2&chapter=2": "two answer", "upTo=2&chapter=12": "", "upTo=2&chapter=none": "none",
	} {
		for _, limit := range []string{"1", "100"} {
			parameters := testdb.Must(url.ParseQuery(query + "&limit=" + limit))(t)
			_, all := walk(t, w, parameters)
			got := []string{}
			for id := range all {
				got = append(got, names[id])
			}
			wanted := strings.Fields(want)
			slices.Sort(got)
			slices.Sort(wanted)
			if diff := cmp.Diff(wanted, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", query, diff)
			}
		}
	}
	address := "/novels/a/discussion?upTo=2&post="
	first := read[discussionAnswer](t, w, "/api"+address+on["none"].String())
	if first.PreviousCursor != nil || len(first.Items) != 3 {
		t.Errorf("a link to the newest comment up to chapter 2: %+v", first)
	}
	if page := read[discussionAnswer](t, w, "/api"+address+on["spoiler"].String()); len(page.Items) != 3 {
		t.Errorf("a link to a comment on a later chapter shows %d of 3 comments", len(page.Items))
	}
	links, counted := 0, false
	for _, e := range checkPage(t, w, "/novels/a/discussion?upTo=2&sort=oldest&limit=1") {
		href := e.attributes["href"]
		if counted = counted || e.Data == "h2" && text(e.Node) == "3 comments, with 2 replies"; e.Data != "a" ||
			!strings.Contains(href, "/discussion") || strings.HasPrefix(e.attributes["aria-label"], "Remove") {
			continue
		}
		if links++; !strings.Contains(href, "upTo=2") || strings.Contains(href, on["last"].String()) {
			t.Errorf("a page up to chapter 2 links to %s", href)
		}
	}
	if links < 4 || !counted {
		t.Errorf("%d links, counted: %v", links, counted)
	}
	for _, e := range checkPage(t, w, address+on["later"].String()) {
		if strings.Contains(e.attributes["href"], "upTo") {
			t.Errorf("a page with later chapters has a link %s", e.attributes["href"])
		}
	}
}

// naivePost is a comment in a fold of the log.
type naivePost struct {
	id        uuid.UUID
	parent    *uuid.UUID
	root      uuid.UUID
	depth     int
	writtenAt time.Time
	content   string
	name      string
	index     int64
}

// naiveDiscussion folds the log: the comments on a novel by identifier.
func naiveDiscussion(log []events.Recorded, novel uuid.UUID) map[uuid.UUID]naivePost {
	posts := map[uuid.UUID]naivePost{}
	names := map[string]events.PostImported{}
	author := map[uuid.UUID]string{}
	for _, recorded := range log {
		e, ok := recorded.Event.(events.PostImported)
		if !ok {
			continue
		}
		if latest, known := names[e.Comment.ExternalUUID]; !known || !e.WrittenAt.Before(latest.WrittenAt) {
			names[e.Comment.ExternalUUID] = e
		}
		if e.NovelID != novel {
			continue
		}
		p := naivePost{
			id: recorded.StreamID, parent: e.ParentPostID, root: recorded.StreamID, writtenAt: e.WrittenAt,
			content: e.Comment.Content, index: recorded.LogIndex,
		}
		if p.parent != nil {
			p.root, p.depth = posts[*p.parent].root, posts[*p.parent].depth+1
		}
		posts[p.id], author[p.id] = p, e.Comment.ExternalUUID
	}
	for id, p := range posts {
		p.name = names[author[id]].Comment.Username
		posts[id] = p
	}
	return posts
}

// tops returns the top-level comments in the order of writing.
func tops(posts map[uuid.UUID]naivePost, newest bool) []uuid.UUID {
	var found []naivePost
	for _, p := range posts {
		if p.depth == 0 {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b naivePost) int {
		return order.Or(a.writtenAt.Compare(b.writtenAt), order.Compare(a.index, b.index))
	})
	if newest {
		slices.Reverse(found)
	}
	ids := []uuid.UUID{}
	for _, p := range found {
		ids = append(ids, p.id)
	}
	return ids
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

// TestRepliesAreReadInTheOrderOfWriting, in whatever order they arrive, on every page. Those of one instant follow the
// log.
func TestRepliesAreReadInTheOrderOfWriting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	novel := w.novel(t, "A", nil)
	top := w.comment(t, novel, events.PostImported{WrittenAt: start})
	want := make([]uuid.UUID, 40)
	for i := range want { // the newest arrive first, in pairs of one instant
		pair := len(want)/2 - 1 - i/2
		want[2*pair+i%2] = w.comment(t, novel, events.PostImported{
			ParentPostID: &top, WrittenAt: start.Add(time.Duration(pair) * time.Minute),
		})
	}
	var dated []uuid.UUID
	for range 5 {
		dated = append(dated, w.comment(t, novel, events.PostImported{WrittenAt: start.AddDate(1, 0, 0)}))
	}
	w.project(t)
	got := []uuid.UUID{}
	page := read[discussionAnswer](t, w, "/api/novels/a/discussion?limit=1&sort=oldest")
	for thread := page.Items[0]; ; {
		for _, r := range thread.Replies {
			got = append(got, r.PostID)
		}
		if thread.RepliesCursor == nil {
			break
		}
		thread = read[discussionAnswer](t, w, "/api/novels/a/discussion?limit=7&under="+top.String()+"&cursor="+
			*thread.RepliesCursor).Items[0]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("replies (-want +got):\n%s", diff)
	}
	link := read[discussionAnswer](t, w, "/api/novels/a/discussion?post="+want[20].String()).Items[0]
	if link.Replies[0].PostID != want[20] || link.Replies[9].PostID != want[29] {
		t.Errorf("a link to the 21st reply shows %+v", link.Replies)
	}
	tops, _ := walk(t, w, url.Values{"limit": {"2"}})
	slices.Reverse(dated)
	if diff := cmp.Diff(append(dated, top), tops); diff != "" {
		t.Errorf("comments of one instant, newest first (-want +got):\n%s", diff)
	}
	body := w.get(t, "/api/novels/a/discussion").Body.String()
	if want := `"lastPostId":"` + dated[0].String(); !strings.Contains(body, want) {
		t.Errorf("the last comment is not %s:\n%s", dated[0], body)
	}
}

// TestACommentIsReadableInAMoment: until the projection has applied it, a link to it is answered with 503 and
// Retry-After, except on a novel that is not public.
func TestACommentIsReadableInAMoment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	novel := w.novel(t, "A", nil)
	id := w.comment(t, novel, events.PostImported{})
	paths := []string{
		"/api/posts/" + id.String(), "/api/novels/a/discussion?post=" + id.String(),
		"/novels/a/discussion?post=" + id.String(),
	}
	for _, path := range paths {
		got := w.get(t, path)
		if got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") != "1" ||
			!strings.Contains(got.Body.String(), "has just arrived") {
			t.Errorf("GET %s: %d %v %s", path, got.Code, got.Header(), got.Body)
		}
	}
	wantProblem(t, w, "/api/posts/"+novel.String(), 404, "not_found")
	w.project(t)
	for _, path := range paths {
		if got := w.get(t, path); got.Code != http.StatusOK || !strings.Contains(got.Body.String(), id.String()) {
			t.Errorf("GET %s: %d %s", path, got.Code, got.Body)
		}
	}
	w.novel(t, "Other", nil)
	wantProblem(t, w, "/api/novels/other/discussion?post="+id.String(), 404, "not_found")
}
