package console_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/internal/auth"
	"novelgate/internal/testdb"
)

// partnerPage registers an integration, and returns its id and the path of its page.
func (f *fixture) partnerPage(t *testing.T, name string) (uuid.UUID, string) {
	t.Helper()
	id := f.partner(t, name)
	return id, "/console/partners/" + id.String()
}

// onPage sends a form of a page, to which it leads back.
func (b *browser) onPage(t *testing.T, path string, form url.Values) string {
	t.Helper()
	form.Set("back", strings.TrimPrefix(path, "/console"))
	return b.act(t, path, form)
}

var secretPattern = regexp.MustCompile(auth.KeyPattern)

// shown sends a form whose answer shows a key, and returns the key; "" without one.
func (b *browser) shown(t *testing.T, path string, form url.Values) string {
	t.Helper()
	w := b.post(t, path, form)
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return secretPattern.FindString(w.Body.String())
}

// TestNewPartner: a new partner's key is shown once, and is nowhere else. The form sent twice makes nothing, and says
// what to do.
func TestNewPartner(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	form := url.Values{
		"name": {"<b>Fan</b> Site"}, "posts": {"on"}, "review": {"on"}, "postsPerMinute": {"7"}, "novelsPerMinute": {"60"},
		"linesPerMinute": {"60000"}, "once": {uuid.NewString()},
	}
	key := f.ada.shown(t, "/console/partners", form)
	found := testdb.Must(auth.NewKeys(f.staff.Pool, time.Now).Authenticate(t.Context(), key))(t)
	if found.Name != "<b>Fan</b> Site" || !found.CanPost || found.CanCreateNovels || !found.Review ||
		found.PostsPerMinute != 7 {
		t.Errorf("%+v", found)
	}
	again := f.ada.post(t, "/console/partners", form).Body.String()
	if secretPattern.MatchString(again) || !strings.Contains(again, "revoke it and issue another") ||
		!strings.Contains(again, key[:8]) {
		t.Error(again)
	}
	if n := len(testdb.Must(f.staff.ListKeys(t.Context(), uuid.Nil, uuid.Nil, 0))(t)); n != 1 {
		t.Errorf("%d keys", n)
	}
	list := f.auditor.get(t, "/console/partners")
	page := f.ada.get(t, "/console/partners/"+found.IntegrationID.String())
	if strings.Contains(list+page, "<b>Fan") || !strings.Contains(list, "&lt;b&gt;Fan") ||
		!strings.Contains(page, "staff:Ada") {
		t.Error(list, page)
	}
	stored := testdb.Values[string](t, f.staff.Pool, `SELECT data::text FROM events
		UNION ALL SELECT concat(notice, undo) FROM console_sessions`)
	if strings.Contains(f.log.String()+strings.Join(stored, " ")+list+page, key) {
		t.Error("the key was kept")
	}
	got := f.ada.onPage(t, "/console/partners", url.Values{"name": {"<B>fan</b> site"}})
	if !strings.Contains(got, "exists") {
		t.Errorf("a taken name: %q", got)
	}
}

// TestPartnerSettings: each change is of the person, is undone by one button, and touches only what the person changed.
func TestPartnerSettings(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id, path := f.partnerPage(t, "Fan Site")
	settings := func() staff.Integration { return testdb.Must(f.staff.Integration(t.Context(), id.String()))(t) }
	begun := settings()
	saved := url.Values{
		"action": {"settings"}, "name": {"Fan Club"}, "was-name": {"Fan Site"}, "posts": {"on"}, "was-novels": {""},
		"postsPerMinute": {"9"}, "was-postsPerMinute": {"60"}, "novelsPerMinute": {"5"}, "was-novelsPerMinute": {"5"},
		"reason": {"they asked"},
	}
	for _, c := range []struct {
		form url.Values
		want string
		is   func(i staff.Integration) bool
	}{
		{saved, "Fan Site: settings changed.", func(i staff.Integration) bool {
			return i.Name == "Fan Club" && slices.Equal(i.Capabilities, []string{"posts"}) && i.PostsPerMinute == 9 &&
				i.NovelsPerMinute == begun.NovelsPerMinute
		}},
		{url.Values{"action": {"disable"}, "reason": {"a flood"}}, "Fan Site: disabled.", func(i staff.Integration) bool {
			return !i.Enabled
		}},
		{url.Values{"action": {"settings"}, "postsPerMinute": {"many"}}, "postsPerMinute: must be a whole number.", nil},
		{url.Values{"action": {"settings"}, "postsPerMinute": {"-1"}}, "postsPerMinute: a limit must lie between", nil},
		{url.Values{"action": {"settings"}, "name": {f.adaKey.Reveal()}}, "has an API key in it", nil},
		{url.Values{"action": {"disable"}, "reason": {f.adaKey.Reveal()}}, "has an API key in it", nil},
		{url.Values{"action": {"settings"}}, "Nothing was changed.", nil},
		{url.Values{"action": {"explode"}}, "Nothing is selected.", nil},
	} {
		if got := f.ada.onPage(t, path, c.form); !strings.Contains(got, c.want) {
			t.Errorf("%v: %q, want %q", c.form, got, c.want)
		}
		if c.is != nil {
			if !c.is(settings()) {
				t.Errorf("%v: %+v", c.form, settings())
			}
			f.ada.act(t, "/console/undo", url.Values{"back": {strings.TrimPrefix(path, "/console")}})
		}
		if got := settings(); got.Name != begun.Name || !got.Enabled || len(got.Capabilities) > 0 ||
			got.PostsPerMinute != 60 {
			t.Errorf("%v, undone: %+v", c.form, got)
		}
	}
	actors := testdb.Values[string](t, f.staff.Pool, `SELECT DISTINCT actor FROM events WHERE stream_id = $1
		AND stream_version > 1`, id)
	page := f.auditor.get(t, path)
	if !slices.Equal(actors, []string{"staff:Ada"}) || strings.Contains(page, `action="`+path) ||
		!strings.Contains(page, "settings changed: they asked") || !strings.Contains(page, "disabled: a flood") {
		t.Error(actors, page)
	}
}

// TestPartnerKeys: keys are issued, replaced and revoked; what cannot be undone is asked first, and a form sent twice
// changes nothing more.
func TestPartnerKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id, path := f.partnerPage(t, "Fan Site")
	valid := func(key string) bool {
		_, err := auth.NewKeys(f.staff.Pool, time.Now).Authenticate(t.Context(), key)
		return err == nil
	}
	issue := url.Values{"action": {"issue"}, "lifetime": {"24"}, "once": {uuid.NewString()}}
	first := f.ada.shown(t, path, issue)
	if again := f.ada.shown(t, path, issue); again != "" || !valid(first) {
		t.Errorf("issued again: %q", again)
	}
	keys := func() []staff.Key { return testdb.Must(f.staff.ListKeys(t.Context(), id, uuid.Nil, 0))(t) }
	if got := keys(); len(got) != 1 || got[0].ExpiresAt == nil || got[0].ExpiresAt.Sub(got[0].CreatedAt) != 24*time.Hour {
		t.Fatalf("%+v", got)
	}
	of := func(n int, action string, more ...string) url.Values {
		form := url.Values{"action": {action}, "key": {keys()[n].ID.String()}}
		for i := 0; i < len(more); i += 2 {
			form.Set(more[i], more[i+1])
		}
		return form
	}
	second := f.ada.shown(t, path, of(0, "rotate", "overlap", "1"))
	if !valid(first) || !valid(second) || keys()[0].ExpiresAt.After(time.Now().Add(time.Hour)) {
		t.Errorf("rotated: %+v", keys())
	}
	if f.ada.shown(t, path, of(1, "rotate", "overlap", "0")) != "" || !valid(second) {
		t.Error("replaced without a question")
	}
	third := f.ada.shown(t, path, of(1, "rotate", "overlap", "0", "confirmed", "yes"))
	if valid(second) || !valid(third) {
		t.Error("not replaced at once")
	}
	if f.ada.shown(t, path, of(2, "revoke", "reason", "leaked")) != "" || !valid(third) {
		t.Error("revoked without a question")
	}
	revoke := of(2, "revoke", "reason", "leaked", "confirmed", "yes", "once", uuid.NewString())
	for range 2 {
		if got := f.ada.onPage(t, path, revoke); got != "The key "+third[:8]+" is revoked." || valid(third) {
			t.Errorf("revoked: %q", got)
		}
	}
	for _, c := range []struct {
		form url.Values
		want string
	}{
		{of(2, "revoke", "confirmed", "yes"), "The key is revoked already."},
		{url.Values{"action": {"issue"}, "lifetime": {"-1"}}, "lifetime: must be a number of hours"},
		{url.Values{"action": {"rotate"}, "overlap": {"1"}}, "Nothing is selected."},
	} {
		if got := f.ada.onPage(t, path, c.form); !strings.Contains(got, c.want) {
			t.Errorf("%v: %q", c.form, got)
		}
	}
	page := f.ada.get(t, path)
	if secretPattern.MatchString(page) || !strings.Contains(page, "leaked") || strings.Count(page, ">revoked<") != 1 {
		t.Error(page)
	}
	_, other := f.partnerPage(t, "Other")
	if got := f.ada.onPage(t, other, of(1, "rotate", "overlap", "1")); !strings.Contains(got, "no such") {
		t.Errorf("a key of another partner: %q", got)
	}
}

// TestPartnerWebhooks: staff switch, test and replay a webhook of the partner. Its story names them.
func TestPartnerWebhooks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id, path := f.partnerPage(t, "Fan Site")
	_, other := f.partnerPage(t, "Other")
	received := make(chan string, 1)
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		received <- r.Header.Get("Webhook-Id")
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(endpoint.Close)
	hook := uuid.New()
	testdb.Exec(t, f.staff.Pool, `INSERT INTO webhooks (webhook_id, integration_id, url, secret, position)
		VALUES ($1, $2, $3, sha256('s'), 1000)`, hook, id, endpoint.URL+"/?token=s3cret")
	f.await(t)
	form := func(action string, more ...string) url.Values {
		form := url.Values{"action": {action}, "webhook": {hook.String()}}
		for i := 0; i < len(more); i += 2 {
			form.Set(more[i], more[i+1])
		}
		return form
	}
	state := func() string {
		return testdb.Value[string](t, f.staff.Pool, `SELECT concat_ws(' ', disabled, disabled_by, disabled_reason)
			FROM webhooks WHERE webhook_id = $1`, hook)
	}
	got := f.ada.onPage(t, path, form("webhook-disable"))
	if !strings.Contains(got, "reason is required") || state() != "" {
		t.Errorf("without a reason: %q, %q", got, state())
	}
	f.ada.onPage(t, path, form("webhook-disable", "reason", "it loops"))
	if got := state(); got != "staff staff:Ada it loops" {
		t.Errorf("disabled: %q", got)
	}
	f.ada.act(t, "/console/undo", url.Values{"back": {strings.TrimPrefix(path, "/console")}})
	if got := state(); got != "" {
		t.Errorf("undone: %q", got)
	}
	if got := f.ada.onPage(t, path, form("webhook-test")); !strings.Contains(got, "was accepted (") ||
		!strings.HasPrefix(<-received, "msg_test_") {
		t.Errorf("tested: %q", got)
	}
	position := func() int64 {
		return testdb.Value[int64](t, f.staff.Pool, `SELECT position FROM webhooks WHERE webhook_id = $1`, hook)
	}
	f.ada.post(t, path, form("webhook-replay", "since", "2026-01-31T12:00"))
	if position() != 1000 {
		t.Error("sent again without a question")
	}
	got = f.ada.onPage(t, path, form("webhook-replay", "since", "2026-01-31T12:00", "confirmed", "yes"))
	if position() > 10 || !strings.Contains(got, "31 January 2026, 12:00 UTC") {
		t.Errorf("sent again: %q, position %d", got, position())
	}
	if got := f.ada.onPage(t, other, form("webhook-test")); !strings.Contains(got, "no such webhook") {
		t.Errorf("a webhook of another partner: %q", got)
	}
	kept := testdb.Value[string](t, f.staff.Pool, `SELECT string_agg(content, ' ') FROM console_notes`)
	if strings.Contains(kept+f.log.String(), "s3cret") || !strings.Contains(f.log.String(), "name=Ada") {
		t.Error(kept, f.log)
	}
	page := f.ada.get(t, path)
	for _, want := range []string{
		"disabled: it loops", "Enable the webhook", "tested: accepted", "sends again since", "<bdi>Ada</bdi> <time",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the story lacks %q", want)
		}
	}
}

// TestPartnerFigures: the list and the page show today beside last week, refusals, and how much of a limit is used.
func TestPartnerFigures(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id, path := f.partnerPage(t, "Fan Site")
	f.now = time.Date(2026, 8, 12, 12, 0, 0, 0, time.UTC)
	testdb.Exec(t, f.staff.Pool, `INSERT INTO daily_facts
		SELECT '2026-08-12'::date - d, $1, md5(d::text)::uuid, 1000 + d, 0, 0 FROM generate_series(0, 20) AS d`, id)
	testdb.Exec(t, f.staff.Pool, `INSERT INTO integration_activity VALUES ($1, 5, 0, 0, 0, $2, $2)`, id,
		f.now.Add(-3*time.Hour))
	testdb.Exec(t, f.staff.Pool, `INSERT INTO rate_limits VALUES ($1, 'posts', clock_timestamp(), 37, 100)`, id)
	for n, at := range []string{"019ff344-cc00-7000-8000-000000000000", "019ff344-cbff-7fff-bfff-ffffffffffff"} {
		testdb.Exec(t, f.staff.Pool, `INSERT INTO refusals VALUES ($1, $2, now(), $3::int, 'posts', NULL, 'rate_limited', NULL, '')`,
			id, at, n)
	}
	list := f.ada.get(t, "/console/partners")
	for _, want := range []string{">3 h ago<", `"number">1000<`, `"number">1007<`, `/deliveries">1</a>`} {
		if !strings.Contains(list, want) {
			t.Errorf("the list lacks %q: %s", want, list)
		}
	}
	page := f.ada.get(t, path)
	for _, want := range []string{
		"Today 1000 comments", "day a week ago 1007", `<meter min="0" max="60" value="37">`, "a week before Thursday 6 August: 1013",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q: %s", want, page)
		}
	}
	if n := strings.Count(page, `class="past"`); n != 7 {
		t.Errorf("%d bars of the week before", n)
	}
}

// TestDeliveries: staff find what a delivery became by its key or its request, or why it was refused.
func TestDeliveries(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id, path := f.partnerPage(t, "Fan Site")
	other := f.partner(t, "Other")
	novel, post := events.NovelID("genji"), events.PostID(id, "p-1")
	f.append(t, events.Recorded{
		StreamType: events.NovelStream, StreamID: novel, StreamVersion: 1, ID: "n-1", Source: events.NovelsSource(id),
		Event:    events.NovelCreated{Title: "Genji", Slug: "genji", Author: "Unknown", OwnerID: &id, State: "approved"},
		Metadata: events.Metadata{RequestID: "req-n"},
	}, events.Recorded{
		StreamType: events.PostStream, StreamID: post, StreamVersion: 1, ID: "p-1", Source: events.PostsSource(id),
		Event: events.PostImported{
			IntegrationID: id, NovelID: novel, ThreadID: events.ThreadID(novel), WrittenAt: time.Now(),
			Comment: &events.Comment{ExternalUUID: "u", Username: "U", Content: "c"},
		},
		Metadata: events.Metadata{RequestID: "req-bulk/2"},
	})
	refuse := func(of uuid.UUID, request, key, code, detail string) {
		testdb.Exec(t, f.staff.Pool, `INSERT INTO refusals VALUES ($1, $2, now(), $3, 'posts', $4, $5, NULL, $6)`, of,
			uuid.Must(uuid.NewV7()), request, key, code, detail)
	}
	refuse(id, "req-1", "r-1", "novel_not_found", "unknown <script>")
	refuse(id, "req-bulk/7", "r-2", "rate_limited", "too many")
	refuse(other, "req-1", "r-1", "rate_limited", "of the other")
	const unknown, many = "unknown &lt;script&gt;", "too many"
	comment, found := "/console/comments/"+post.String(), "/console/novels/"+novel.String()
	for query, want := range map[string][]string{
		"":                     {unknown, many},
		"key=p-1":              {comment},
		"key=%22n-1%22":        {found}, // as clients may quote it
		"key=r-1":              {unknown},
		"request=req-n":        {found},
		"request=req-bulk":     {comment, many},
		"request=req-1":        {unknown},
		"code=rate_limited":    {many},
		"operation=novels":     nil,
		"key=nothing":          nil,
		"request=nothing":      nil,
		"code=gone&key=n-1":    {found},
		"operation=posts&key=": {unknown, many},
	} {
		page := f.auditor.get(t, path+"/deliveries?"+query)
		for _, text := range []string{comment, found, unknown, many} {
			if slices.Contains(want, text) != strings.Contains(page, text) {
				t.Errorf("%q: %q is there: %v", query, text, !slices.Contains(want, text))
			}
		}
		if strings.Contains(page, "of the other") {
			t.Errorf("%q shows refusals of another partner", query)
		}
	}
}
