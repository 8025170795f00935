package console_test

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/internal/testdb"
)

const hostile = `"><script>alert(1)</script>` + "\u202e"

// states returns the states of novels, in the order of the ids.
func (f *fixture) states(t *testing.T, ids ...uuid.UUID) string {
	t.Helper()
	return strings.Join(testdb.Values[string](t, f.staff.Pool, `SELECT l.state FROM unnest($1::uuid[]) WITH ORDINALITY AS w(id, n)
JOIN title_lookup l ON l.novel_id = w.id ORDER BY w.n`, ids), " ")
}

// TestNovels: the list has filters and pages, and the owners' names; titles stay text.
func TestNovels(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	acme, other := f.partner(t, "Acme"), f.partner(t, `Other "><script>alert(1)</script>`)
	f.novel(t, acme, "Genji", novel.Pending)
	f.novel(t, other, "Heike "+hostile, novel.Approved)
	testdb.Must(f.staff.PublishNovel(t.Context(), "Moby Dick", novel.Fields{}, ""))(t)
	testdb.Must(f.staff.RejectNovel(t.Context(), "Spam", "spam"))(t)
	titles := []string{"Genji", "Heike", "Moby Dick", "Spam"}
	for query, want := range map[string][]string{
		"": titles, "state=pending": {"Genji"}, "owner=" + acme.String(): {"Genji"}, "owner=host": {"Moby Dick"},
		"owner=none": {"Spam"}, "text=MOBY": {"Moby Dick"}, "text=i&state=approved": {"Heike"}, "text=nothing": nil,
		"owner=" + other.String(): {"Heike"},
	} {
		page := f.auditor.get(t, "/console/novels?"+query)
		var got []string
		for _, spelled := range titles {
			if strings.Contains(page, ">"+spelled) {
				got = append(got, spelled)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
		if strings.Contains(page, "<script>") || strings.Contains(page, `name="reason"`) ||
			strings.Contains(page, "No novels match") != (want == nil) {
			t.Errorf("%q: %s", query, page)
		}
	}
	waiting := f.ada.get(t, "/console/novels?state=pending")
	if !strings.Contains(waiting, "/console/partners/"+acme.String()) || !strings.Contains(waiting, ">Acme<") ||
		!strings.Contains(waiting, `name="reason"`) {
		t.Error(waiting)
	}
	for i := range 51 {
		f.novel(t, acme, "Volume "+strconv.Itoa(100+i), novel.Approved)
	}
	page := f.ada.get(t, "/console/novels?text=volume")
	_, next, _ := strings.Cut(page, `rel="next" href="`)
	next, _, _ = strings.Cut(strings.ReplaceAll(next, "&amp;", "&"), `"`)
	if last := f.ada.get(t, next); strings.Contains(page, "Volume 150") || strings.Count(last, `class="item"`) != 1 ||
		!strings.Contains(last, "Volume 150") {
		t.Errorf("%s: %s", next, last)
	}
}

// TestDecideNovels: each of several novels has its outcome, with the name of the person in the history. A form that is
// sent twice changes nothing. The decision is taken back, unless the novels were pending.
func TestDecideNovels(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	acme := f.partner(t, "Acme")
	a, b := f.novel(t, acme, "A "+hostile, novel.Approved), f.novel(t, acme, "B", novel.Approved)
	testdb.Must(f.staff.RejectByID(t.Context(), b, "before"))(t)
	form := func(decision string, chosen ...uuid.UUID) url.Values {
		form := url.Values{"decision": {decision}, "reason": {"why"}, "back": {"/novels?text=x"}}
		for _, id := range chosen {
			form.Add("novel", id.String())
		}
		return form
	}
	twice := form("reject", a, b, uuid.UUID{1})
	want := "Rejected “A &#34;&gt;&lt;script&gt;alert(1)&lt;/script&gt;”. Not “B”: The novel is rejected already. " +
		"Not “01000000-0000-0000-0000-000000000000”: There is no such integration, key or novel."
	if got := f.ada.act(t, "/console/novels", twice); got != want {
		t.Errorf("%s", got)
	}
	if got := f.latest(t, a); got != "novel.rejected.v1 staff:Ada why" {
		t.Error(got)
	}
	if got := f.ada.act(t, "/console/undo", url.Values{"back": {"/novels"}}); !strings.HasPrefix(got, "Approved “A") {
		t.Error(got)
	}
	if got := f.states(t, a, b); got != "approved rejected" {
		t.Error(got)
	}
	if got := f.ada.act(t, "/console/novels", twice); f.states(t, a) != "approved" {
		t.Errorf("a form that was sent twice: %s", got)
	}
	p, q := f.novel(t, acme, "P", novel.Pending), f.novel(t, acme, "Q", novel.Pending)
	if got := f.ada.act(t, "/console/novels", form("approve", p, q)); got != "Approved 2 novels." {
		t.Error(got)
	}
	w := f.ada.post(t, "/console/undo", url.Values{"back": {"/novels"}})
	led := w.Header().Get("Location")
	if led != "/console/novels?state=approved" || f.states(t, p, q) != "approved approved" {
		t.Errorf("undo leads to %s", led)
	}
	for want, bad := range map[string]url.Values{
		"decision: must be approve or reject.": form("publish", p),
		"Nothing is selected.":                 form("approve"),
		"Select at most 100.":                  form("approve", many(101)...),
		"reason: a reason is required.": {
			"decision": {"reject"}, "novel": {p.String()}, "back": {"/novels"},
		},
		"The novel is approved already.": form("approve", p),
	} {
		if got := f.ada.act(t, "/console/novels", bad); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if w := f.auditor.post(t, "/console/novels", form("reject", p)); w.Code != http.StatusForbidden {
		t.Errorf("an auditor: %d", w.Code)
	}
}

func many(n int) (list []uuid.UUID) {
	for range n {
		list = append(list, uuid.New())
	}
	return list
}

// TestNovel: the page of a novel shows all of it and its story, and offers what its state allows. Publishing asks once
// more. An edit changes what was changed in the form, and a refused one is not lost.
func TestNovel(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	acme := f.partner(t, "Acme")
	id := f.novel(t, acme, "Genji "+hostile, novel.Pending)
	path, back := "/console/novels/"+id.String(), "/novels/"+id.String()
	send := func(pairs ...string) url.Values {
		form := url.Values{"back": {back}, "reason": {"why"}}
		for i := 0; i < len(pairs); i += 2 {
			form.Set(pairs[i], pairs[i+1])
		}
		return form
	}
	page := f.ada.get(t, path)
	for _, want := range []string{
		"/console/partners/" + acme.String(), ">Acme<", "novel.created.v1", "/console/comments?novel=" + id.String(),
		"/novels/genji-script-alert-1-script", "by <bdi>Acme</bdi>", "It waits for staff", "A note for colleagues",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q: %s", want, page)
		}
	}
	if strings.Contains(page, "<script>") || strings.Contains(f.auditor.get(t, path), `<button type="submit" name`) {
		t.Error(page)
	}
	buttons := func() (list []string) {
		for _, action := range []string{"approve", "reject", "publish", "edit"} {
			if strings.Contains(f.ada.get(t, path), `name="action" value="`+action+`"`) {
				list = append(list, action)
			}
		}
		return list
	}
	for _, step := range []struct{ action, state, can string }{
		{"", "pending", "approve reject publish"},
		{"reject", "rejected", "approve"},
		{"approve", "approved", "reject publish"},
	} {
		if step.action != "" {
			f.ada.act(t, path, send("action", step.action))
		}
		if got := strings.Join(buttons(), " "); got != step.can || f.states(t, id) != step.state {
			t.Errorf("%s: %s, %s", step.action, f.states(t, id), got)
		}
	}
	if w := f.ada.post(t, path, send("action", "publish")); w.Code != http.StatusOK || f.states(t, id) != "approved" ||
		!strings.Contains(w.Body.String(), "takes it over for good") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	f.ada.act(t, path, send("action", "publish", "confirmed", "yes"))
	if page := f.ada.get(t, path); strings.Contains(page, "Decide again") {
		t.Errorf("a publication is for good: %s", page)
	}
	if got := strings.Join(buttons(), " "); got != "edit" || f.states(t, id) != "published" {
		t.Error(got)
	}

	before := novel.Fields{Synopsis: new("\nA synopsis."), Language: new("ja")}
	testdb.Must(f.staff.EditNovel(t.Context(), id, before, ""))(t)
	edit := send("action", "edit", "author", "Murasaki", "was-author", "Unknown", "genres", " court \r\n\r\nromance",
		"synopsis", "\r\nA synopsis.", "was-synopsis", "\r\nA synopsis.", "language", "old", "was-language", "old")
	if got := f.ada.act(t, path, edit); got != "The changes are saved." {
		t.Error(got)
	}
	latest := func() string {
		return testdb.Value[string](t, f.staff.Pool, `SELECT data::text FROM events WHERE stream_id = $1
ORDER BY stream_version DESC LIMIT 1`, id)
	}
	want := `{"author":"Murasaki","genres":["court","romance"],"reason":"why"}`
	if got := latest(); got != want {
		t.Error(got)
	}
	bad := send("action", "edit", "author", "Somebody", "was-author", "Murasaki", "coverUrl", "http://x.example/"+hostile)
	w := f.ada.post(t, path, bad)
	if body := w.Body.String(); w.Code != http.StatusBadRequest || !strings.Contains(body, "coverUrl: ") ||
		!strings.Contains(body, `value="Somebody"`) || strings.Contains(body, "<script>") || latest() != want {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for want, bad := range map[string]url.Values{
		"Nothing was changed.":                              send("action", "edit"),
		"action: must be approve, reject, publish or edit.": send("action", "drop"),
		"A novel that is published cannot become rejected.": send("action", "reject"),
	} {
		if got := f.ada.act(t, path, bad); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	testdb.Must(f.staff.RejectNovel(t.Context(), "Barred", "spam"))(t)
	barred := f.ada.get(t, "/console/novels/"+events.NovelID("barred").String())
	if !strings.Contains(barred, "Allow imports") || strings.Contains(barred, "Page of readers") {
		t.Error(barred)
	}
	if testdb.Must(f.staff.NovelByID(t.Context(), id))(t).Owner != staff.Host {
		t.Error("a partner owns a published novel")
	}
}
