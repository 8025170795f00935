package console_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/aggregates/principal"
	"novelgate/events"
	"novelgate/internal/console"
	"novelgate/internal/testdb"
)

// place returns the address of the page on which a form of a queue is, as it is sent.
func place(queue string) url.Values { return url.Values{"back": {"/queue/" + queue}} }

func form(back url.Values, pairs ...string) url.Values {
	form := url.Values{}
	for name, values := range back {
		form[name] = values
	}
	for i := 0; i < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	return form
}

// TestReported: the comment that waits longest comes first, with why it is here; each decision is an event with the
// name of the moderator and a reason, the next comment follows at once, and undo takes the decision back.
func TestReported(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.partner(t, "Fan Site")
	n := f.novel(t, p, "Genji", novel.Approved)
	var posts []uuid.UUID
	for i, key := range []string{"first", "second", "third", "fourth"} {
		posts = append(posts, f.comment(t, p, n, key, key, "text of the "+key, i+1))
	}
	shows := func(b *browser, text string) {
		t.Helper()
		page := b.get(t, "/console/queue/reported")
		if _, shown, _ := strings.Cut(page, "<article"); !strings.Contains(shown, text) {
			t.Errorf("the queue does not show %q first:\n%s", text, page)
		}
	}
	shows(f.ada, "text of the first")
	if page := f.ada.get(t, "/console/queue/reported"); !strings.Contains(page, "1 reader of <bdi>Fan Site</bdi>") ||
		!strings.Contains(page, "Look at &lt;this&gt;.") {
		t.Error("the page does not say why the comment is here")
	}
	decide := func(post uuid.UUID, decision, wantNotice, wantEvent string) {
		t.Helper()
		sent := form(place("reported"), "post", post.String(), "decision", decision, "suggested", "Reported as spam.")
		if got := f.ada.act(t, "/console/queue/reported", sent); got != wantNotice {
			t.Errorf("%s: %q, want %q", decision, got, wantNotice)
		}
		if got := f.latest(t, post); got != wantEvent {
			t.Errorf("%s: the event is %q, want %q", decision, got, wantEvent)
		}
	}
	decide(posts[0], "hide", "Hidden: 1 comment.", "post.hidden.v1 staff:Ada Reported as spam.")
	shows(f.ada, "text of the second")
	if got := f.ada.act(t, "/console/undo", form(place("reported"))); got != "Done: Restore 1 comment." {
		t.Errorf("undo: %q", got)
	}
	if got := f.latest(t, posts[0]); !strings.HasPrefix(got, "post.restored.v1 staff:Ada") {
		t.Errorf("undo: %q", got)
	}
	decide(posts[1], "dismiss", "Reports dismissed: 1 comment.",
		"post.reports_dismissed.v1 staff:Ada The reports are unfounded.")
	decide(posts[2], "block", "Blocked third, and hid the comment.",
		"post.hidden.v1 staff:Ada Repeatedly against the rules.")
	author := testdb.AuthorID(p, "third")
	if got := f.latest(t, author); got != "author.blocked.v1 staff:Ada Repeatedly against the rules." {
		t.Errorf("block: %q", got)
	}
	f.ada.act(t, "/console/undo", form(place("reported")))
	if got := f.latest(t, author); !strings.HasPrefix(got, "author.unblocked.v1 staff:Ada") {
		t.Errorf("undo of a block: %q", got)
	}
	if got := f.latest(t, posts[2]); !strings.HasPrefix(got, "post.restored.v1") {
		t.Errorf("undo of a block: %q", got)
	}
	decide(posts[2], "nonsense", "decision: must be hide, restore or dismiss.", f.latest(t, posts[2]))
	decide(posts[3], "dismiss", "Reports dismissed: 1 comment.",
		"post.reports_dismissed.v1 staff:Ada The reports are unfounded.")
	if page := f.ada.get(t, "/console/queue/reported"); !strings.Contains(page, "Nothing waits here.") {
		t.Error("the queue is not empty")
	}
}

// TestTwoModerators: nobody is given what another looks at, and a second decision about a comment changes nothing and
// says so.
func TestTwoModerators(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.partner(t, "Fan Site")
	n := f.novel(t, p, "Genji", novel.Approved)
	first := f.comment(t, p, n, "ann", "a", "text of the first", 1)
	f.comment(t, p, n, "bob", "b", "text of the second", 1)
	grace := f.signIn(t, f.person(t, principal.Staff, "Grace"))
	shown := func(b *browser, path string) string {
		_, page, _ := strings.Cut(b.get(t, path), `<p>Waits since`)
		page, _, _ = strings.Cut(page, "In this queue")
		return page
	}
	if got := shown(f.ada, "/console/queue/reported"); !strings.Contains(got, "text of the first") {
		t.Errorf("Ada sees %s", got)
	}
	if got := shown(grace, "/console/queue/reported"); !strings.Contains(got, "text of the second") {
		t.Errorf("Grace sees %s", got)
	}
	if got := shown(f.auditor, "/console/queue/reported"); !strings.Contains(got, "<bdi>Ada</bdi> has it") ||
		strings.Contains(got, "<button") {
		t.Errorf("the auditor sees %s", got)
	}
	item := "/console/queue/reported?item=" + first.String()
	if got := shown(grace, item); !strings.Contains(got, "<bdi>Ada</bdi> is looking at this, too.") {
		t.Errorf("Grace sees %s", got)
	}
	if got := shown(grace, item+"&free=yes"); !strings.Contains(got, "text of the second") {
		t.Errorf("Grace is led to %s", got)
	}
	for range 10 { // at the same moment
		testdb.Must(f.staff.Pool.Exec(t.Context(), `DELETE FROM console_claims`))(t)
		var pages [2]string
		var both sync.WaitGroup
		for i, b := range []*browser{f.ada, grace} {
			both.Go(func() {
				pages[i] = b.do(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/console/queue/reported", nil)).
					Body.String()
			})
		}
		both.Wait()
		_, one, _ := strings.Cut(pages[0], `name="post" value="`)
		_, two, _ := strings.Cut(pages[1], `name="post" value="`)
		if one = one[:36]; one == two[:36] {
			t.Fatalf("both were given %s", one)
		}
	}
	f.ada.get(t, item)
	hide := form(place("reported"), "post", first.String(), "decision", "hide", "reason", "rude")
	if got := f.ada.act(t, "/console/queue/reported", hide); got != "Hidden: 1 comment." {
		t.Errorf("Ada: %q", got)
	}
	again := form(place("reported"), "post", first.String(), "decision", "hide", "reason", "rude, too")
	if got := grace.act(t, "/console/queue/reported", again); !strings.HasPrefix(got, "Nothing was changed.") {
		t.Errorf("Grace: %q", got)
	}
	if got := f.latest(t, first); got != "post.hidden.v1 staff:Ada rude" {
		t.Error(got)
	}
}

// TestSentTwice: a form that is sent twice has one event.
func TestSentTwice(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.partner(t, "Fan Site")
	post := f.comment(t, p, f.novel(t, p, "Genji", novel.Approved), "ann", "a", "text", 1)
	sent := form(place("reported"), "post", post.String(), "decision", "block", "once", uuid.NewString())
	for range 2 {
		if got := f.ada.act(t, "/console/queue/reported", sent); got != "Blocked ann, and hid the comment." {
			t.Errorf("%q", got)
		}
		sent = form(sent)
	}
	const byAda = `SELECT count(*)::int FROM event_log WHERE metadata ->> 'actor' = 'staff:Ada'`
	if n := testdb.Value[int](t, f.staff.Pool, byAda); n != 2 {
		t.Errorf("%d events", n)
	}
}

// TestWaitingNovels: novels wait in the order of their arrival, and are approved or rejected.
func TestWaitingNovels(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.partner(t, "Fan Site")
	f.novel(t, p, "Zebra", novel.Approved)
	first, second := f.novel(t, p, "Heike", novel.Pending), f.novel(t, p, "Genji", novel.Pending)
	for _, c := range []struct {
		id                      uuid.UUID
		title, decision, notice string
		event                   string
	}{
		{first, "Heike", "approve", "Approved “Heike”.", "novel.approved.v1 staff:Ada Approved in the queue."},
		{second, "Genji", "reject", "Rejected “Genji”.", "novel.rejected.v1 staff:Ada Not for this platform."},
	} {
		if page := f.ada.get(t, "/console/queue/novels"); !strings.Contains(page, c.title+"</a></h2>") {
			t.Errorf("%s is not shown:\n%s", c.title, page)
		}
		sent := form(place("novels"), "novel", c.id.String(), "decision", c.decision)
		if got := f.ada.act(t, "/console/queue/novels", sent); got != c.notice {
			t.Errorf("%q, want %q", got, c.notice)
		}
		if got := f.latest(t, c.id); got != c.event {
			t.Errorf("%q, want %q", got, c.event)
		}
	}
	w := f.ada.post(t, "/console/undo", form(place("novels")))
	if got := w.Header().Get("Location"); got != "/console/novels/"+second.String() {
		t.Errorf("undo leads to %q", got)
	}
}

// TestNotes: notes are for colleagues; those about what was erased or withdrawn are deleted.
func TestNotes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.partner(t, "Fan Site")
	n := f.novel(t, p, "Genji", novel.Approved)
	post, kept := f.comment(t, p, n, "ann", "a", "text", 0), f.comment(t, p, n, "bob", "b", "text", 0)
	page := "/comments/" + post.String()
	add := func(subject uuid.UUID, text string) string {
		return f.ada.act(t, "/console/notes", form(url.Values{"back": {page}}, "subject", subject.String(), "note", text))
	}
	for text, want := range map[string]string{
		"<b>Look</b>": "The note is added.", " ": "note: must have 1 to 2000 characters.",
		strings.Repeat("é", 2000): "The note is added.", strings.Repeat("é", 2001): "note: must have 1 to 2000 characters.",
	} {
		if got := add(post, text); got != want {
			t.Errorf("%.20q: %q, want %q", text, got, want)
		}
	}
	add(testdb.AuthorID(p, "ann"), "an author")
	add(kept, "stays")
	if got := f.auditor.get(t, "/console"+page); !strings.Contains(got, "&lt;b&gt;Look&lt;/b&gt;") ||
		!strings.Contains(got, "an author") || strings.Contains(got, `name="remove"`) {
		t.Error(got)
	}
	f.append(t, events.Recorded{
		StreamType: events.PostStream, StreamID: post, StreamVersion: 2, ID: "w", Source: events.PostsSource(p),
		Event: events.PostWithdrawn{IntegrationID: p},
	})
	testdb.NoError(t, console.Forget(t.Context(), f.staff.Pool))
	f.append(t, events.Recorded{
		StreamType: events.AuthorStream, StreamID: testdb.AuthorID(p, "ann"), StreamVersion: 1, ID: "e",
		Source: "staff/x", Event: events.AuthorErased{},
	})
	testdb.NoError(t, console.Forget(t.Context(), f.staff.Pool))
	if got := testdb.Value[string](t, f.staff.Pool, `SELECT string_agg(content, ',') FROM console_notes`); got != "stays" {
		t.Errorf("%.100q is left", got)
	}
	id := testdb.Value[string](t, f.staff.Pool, `SELECT note_id::text FROM console_notes`)
	remove := form(url.Values{"back": {"/comments/" + kept.String()}}, "subject", kept.String(), "remove", id)
	if got := f.ada.act(t, "/console/notes", remove); got != "The note is removed." {
		t.Errorf("%q", got)
	}
	if w := f.auditor.post(t, "/console/notes", remove); w.Code != http.StatusForbidden {
		t.Errorf("an auditor: %d", w.Code)
	}
}
