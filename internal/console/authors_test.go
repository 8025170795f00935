package console_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/internal/testdb"
)

// addressOf returns the path of the page of an author, as the lists link to it.
func addressOf(partner uuid.UUID, author string) string {
	if author == "." || author == ".." {
		return "/console/authors/" + partner.String() + "/?uuid=" + author
	}
	return "/console/authors/" + partner.String() + "/" + url.PathEscape(author)
}

var authorLink = regexp.MustCompile(`<th scope="row"><a href="([^"]*)"><bdi>`)

// TestAuthors: the list finds authors of one partner or of all by the beginning of their identifier and by state, on
// pages. Its links lead to the author whatever the identifier is.
func TestAuthors(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	acme, other := f.partner(t, "Acme"), f.partner(t, "Other")
	n := f.novel(t, acme, "Genji", novel.Approved)
	hard := []string{"member/1", "..", ".", "a%2Fb?c#d&e", "ü ñ\\", hostile, "member/10"}
	for _, author := range hard {
		f.comment(t, acme, n, author, "of "+author, "text", 0)
	}
	f.comment(t, other, n, "member/1", "second", "text", 0)
	for _, name := range []string{"member/1", "new"} {
		testdb.Must(f.staff.BlockAuthor(t.Context(), staff.AuthorName{IntegrationID: other, ExternalUUID: name}, "spam"))(t)
	}
	testdb.Must(f.staff.LinkAuthor(t.Context(), staff.AuthorName{IntegrationID: acme, ExternalUUID: "."}, "m-1", ""))(t)
	list := func(query string) (paths []string) {
		page := f.auditor.get(t, "/console/authors?"+query)
		if strings.Contains(page, "<script>") {
			t.Error(page)
		}
		for _, found := range authorLink.FindAllStringSubmatch(page, -1) {
			paths = append(paths, strings.ReplaceAll(found[1], "&amp;", "&"))
		}
		slices.Sort(paths)
		return paths
	}
	at := func(partner uuid.UUID, authors ...string) (paths []string) {
		for _, author := range authors {
			paths = append(paths, addressOf(partner, author))
		}
		slices.Sort(paths)
		return paths
	}
	in := "integration=" + acme.String()
	for query, want := range map[string][]string{
		"": append(at(acme, hard...), at(other, "member/1", "new")...), in: at(acme, hard...),
		in + "&uuid=member/1": at(acme, "member/1", "member/10"), "uuid=member/10": at(acme, "member/10"),
		"uuid=member%2F1": append(at(acme, "member/1", "member/10"), at(other, "member/1")...),
		"state=blocked":   at(other, "member/1", "new"), "state=linked": at(acme, "."), in + "&state=blocked": nil,
	} {
		got := list(query)
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
	}
	for _, author := range hard {
		if page := f.auditor.get(t, addressOf(acme, author)); !strings.Contains(page, "1 comment, 0 hidden") {
			t.Errorf("%q: %s", author, page)
		}
	}
	for i := range 50 {
		testdb.Must(f.staff.LinkAuthor(t.Context(),
			staff.AuthorName{IntegrationID: acme, ExternalUUID: "page" + strconv.Itoa(10+i)}, "m", ""))(t)
	}
	page := f.ada.get(t, "/console/authors?state=linked")
	_, next, _ := strings.Cut(page, `rel="next" href="`)
	next, _, _ = strings.Cut(strings.ReplaceAll(next, "&amp;", "&"), `"`)
	if last := f.ada.get(t, next); strings.Contains(page, "page59") || strings.Count(last, `class="item"`) != 1 ||
		!strings.Contains(last, "page59") {
		t.Errorf("%s: %s", next, last)
	}
	empty := f.ada.get(t, "/console/authors?"+in+"&uuid=no%2Fone")
	if !strings.Contains(empty, addressOf(acme, "no/one")) {
		t.Error(empty)
	}
}

// TestAuthor: the page of an author shows their comments, names and decisions. Each decision is recorded with the name
// of the person, and taken back by the reverse.
func TestAuthor(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.partner(t, "Acme")
	n := f.novel(t, p, "Genji", novel.Approved)
	f.comment(t, p, n, "ann/1", "a", "first text", 2)
	f.append(t, events.Recorded{
		StreamType: events.PostStream, StreamID: events.PostID(p, "b"), StreamVersion: 1, ID: "b",
		Source: events.PostsSource(p),
		Event: events.PostImported{
			NovelID: n, ThreadID: events.ThreadID(n), IntegrationID: p, WrittenAt: time.Unix(0, 0).UTC(),
			Comment: &events.Comment{ExternalUUID: "ann/1", Username: "Old " + hostile, Content: "second text"},
		},
	})
	id, path := testdb.AuthorID(p, "ann/1"), addressOf(p, "ann/1")
	back := strings.TrimPrefix(path, "/console")
	send := func(b *browser, action string, more ...string) string {
		form := url.Values{"back": {back}, "reason": {"why"}, "action": {action}}
		for i := 0; i < len(more); i += 2 {
			form.Set(more[i], more[i+1])
		}
		return b.act(t, path, form)
	}
	page := f.ada.get(t, path)
	for _, want := range []string{
		"<bdi>ann/1</bdi></h1>", "2 comments, 0 hidden, 2 reports open", "Other names",
		"<bdi>Old &#34;&gt;&lt;script&gt;", "first text", "second text",
		"/console/partners/" + p.String(), "/console/comments?author=" + id.String(), "A note for colleagues",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q: %s", want, page)
		}
	}
	if strings.Contains(page, "<script>") || strings.Contains(f.auditor.get(t, path), `name="action"`) {
		t.Error(page)
	}
	for _, c := range []struct{ action, notice, event, tag, undone string }{
		{"block", "Blocked ann/1.", "author.blocked.v1 staff:Ada why", ">blocked<", "author.unblocked.v1"},
		{
			"hide-posts", "Hid all comments of ann/1.", "author.posts_hidden.v1 staff:Ada why", "2 comments, 2 hidden",
			"author.posts_restored.v1",
		},
		{"link", "Linked ann/1 to the member m-7.", "author.linked.v1 staff:Ada why", "<bdi>m-7</bdi>", "author.unlinked.v1"},
	} {
		if got := send(f.ada, c.action, "member", "m-7"); got != c.notice {
			t.Errorf("%s: %q", c.action, got)
		}
		if got := f.latest(t, id); got != c.event {
			t.Errorf("%s: %q", c.action, got)
		}
		kind, _, _ := strings.Cut(c.event, " ")
		if page := f.ada.get(t, path); !strings.Contains(page, c.tag) || !strings.Contains(page, kind) {
			t.Errorf("%s: %s", c.action, page)
		}
		f.ada.act(t, "/console/undo", url.Values{"back": {back}})
		if got := f.latest(t, id); !strings.HasPrefix(got, c.undone+" staff:Ada ") {
			t.Errorf("undo of %s: %q", c.action, got)
		}
	}
	send(f.ada, "link", "member", "m-8")
	if got := send(f.ada, "unlink"); got != "Unlinked ann/1." {
		t.Error(got)
	}
	w := f.ada.post(t, "/console/undo", url.Values{"back": {"/authors"}})
	if got := w.Header().Get("Location"); got != path {
		t.Errorf("the link can only be made again: %q", got)
	}
	for want, got := range map[string]string{
		"The author is unblocked already.":           send(f.ada, "unblock"),
		"reason: a reason is required.":              send(f.ada, "block", "reason", " "),
		"action: is not a decision about an author.": send(f.ada, "drop"),
		"memberId: the identifier of a member must":  send(f.ada, "link", "member", " "),
	} {
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if w := f.auditor.post(t, path, url.Values{"action": {"block"}, "reason": {"x"}}); w.Code != http.StatusForbidden {
		t.Errorf("an auditor: %d", w.Code)
	}
	unknown := addressOf(p, "unknown")
	if page := f.ada.get(t, unknown); !strings.Contains(page, "before they comment") {
		t.Error(page)
	}
	f.ada.act(t, unknown, url.Values{"back": {"/authors"}, "reason": {"known elsewhere"}, "action": {"block"}})
	if got := f.latest(t, testdb.AuthorID(p, "unknown")); got != "author.blocked.v1 staff:Ada known elsewhere" {
		t.Error(got)
	}
	for path, want := range map[string]int{
		addressOf(uuid.New(), "ann/1"): http.StatusNotFound, addressOf(p, ""): http.StatusBadRequest,
	} {
		w := f.ada.do(httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if w.Code != want {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// TestEraseAuthor: an erasure asks once more, says what is left to be done, and leaves nothing in the console that
// names the author.
func TestEraseAuthor(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.partner(t, "Acme")
	n := f.novel(t, p, "Genji", novel.Approved)
	f.comment(t, p, n, "PlantedUUID", "a", "PlantedText", 0)
	path := addressOf(p, "PlantedUUID")
	form := func(action string) url.Values {
		return url.Values{"back": {path[len("/console"):]}, "reason": {"asked for it"}, "action": {action}, "member": {"m"}}
	}
	second := f.signIn(t, f.adaKey)
	f.ada.act(t, path, form("block"))
	second.act(t, path, form("link"))
	second.act(t, path, form("unlink")) // its undo is the address of the page
	id := testdb.AuthorID(p, "PlantedUUID")
	asked := f.ada.post(t, path, form("erase"))
	if asked.Code != http.StatusOK || !strings.Contains(asked.Body.String(), "nobody can restore them") ||
		!strings.HasPrefix(f.latest(t, id), "author.unlinked.v1") {
		t.Fatalf("%d %s", asked.Code, asked.Body)
	}
	sure := form("erase")
	sure.Set("confirmed", "yes")
	w := f.ada.post(t, path, sure)
	if got := w.Header().Get("Location"); got != "/console/authors?integration="+p.String() {
		t.Errorf("%d leads to %s", w.Code, got)
	}
	page := f.ada.get(t, w.Header().Get("Location"))
	if !strings.Contains(page, "Erased: 1 comment and 3 decisions.") ||
		!strings.Contains(page, "author erase --rewrite") || strings.Contains(page, "PlantedUUID") ||
		strings.Contains(page, "have followed") {
		t.Error(page)
	}
	if got := f.latest(t, id); got != "author.erased.v1 staff:Ada asked for it" {
		t.Error(got)
	}
	f.await(t)
	testdb.Exec(t, f.staff.Pool, `ANALYZE`)
	held := testdb.FindWords(t, f.staff.Pool.Config().ConnString(), "PlantedUUID", "PlantedText")
	if len(held) > 0 {
		t.Errorf("still in %q", held)
	}
}
