package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// TestSystem: the page counts the comments of the last hour, and says what is wrong and what to do about it.
func TestSystem(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.partner(t, "Fan Site")
	about := f.novel(t, partner, "Genji", novel.Approved)
	f.comment(t, partner, about, "u", "one", "Good.", 1)
	f.comment(t, partner, about, "u", "two", "Fine.", 0)
	page := f.auditor.get(t, "/console/system")
	for _, want := range []string{
		"2 in the last hour, 2 in the last minute", "<title>2 in the minute from", `<th scope="row">posts</th>`,
		"novelgate 1.2.3", "of 0 commands since", "connections",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in %s", want, page)
		}
	}
	if strings.Contains(page, "<button type=\"submit\">Rebuild") || strings.Contains(page, "has stopped") {
		t.Error(page)
	}
	many := make([]events.Recorded, 300)
	for i := range many {
		key := fmt.Sprint("more ", i)
		many[i] = events.Recorded{
			StreamType: events.PostStream, StreamID: events.PostID(partner, key), StreamVersion: 1, ID: key,
			Source: events.PostsSource(partner), Event: events.PostImported{
				NovelID: about, ThreadID: events.ThreadID(about), IntegrationID: partner, WrittenAt: time.Now().UTC(),
				Comment: &events.Comment{ExternalUUID: "u", Username: "u", Content: key},
			},
		}
	}
	f.append(t, many...)
	testdb.Exec(t, f.staff.Pool, `UPDATE ledger_state
		SET verified_at = now() - interval '9 days', error = 'no room', error_at = now()`)
	testdb.Exec(t, f.staff.Pool, `INSERT INTO webhooks (webhook_id, integration_id, url, secret, position, failures,
    failing_since, next_attempt_at) VALUES ($1, $2, 'https://fans.example/<hook>', sha256(''), 0, 3, now() - interval '2 hours', now())`,
		uuid.New(), partner)
	f.now = time.Now().Add(2 * time.Second) // the survey is shared within a second
	page = f.ada.get(t, "/console/system")
	for _, want := range []string{
		"about 3", "last verified more than eight days ago", "novelgate events verify", "not sealed: no room",
		"1 webhook fails", "Fan Site", "https://fans.example/&lt;hook&gt;", "3 failures since",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in %s", want, page)
		}
	}
}

// TestOperate: staff rebuild a projection, let a failed one retry, and skip the event at which it stopped, each after a
// question where it costs something. The log has the name and the reason of who skipped. Auditors do none of this.
func TestOperate(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	testdb.Background(t, f.console.Run)
	form := func(pairs ...string) url.Values {
		values := url.Values{"back": {"/system"}}
		for i := 0; i < len(pairs); i += 2 {
			values.Set(pairs[i], pairs[i+1])
		}
		return values
	}
	const path = "/console/system"
	for _, name := range []string{"posts", "titles"} {
		asked := f.ada.post(t, path, form("action", "rebuild", "name", name))
		if asked.Code != http.StatusOK || !strings.Contains(asked.Body.String(), "Rebuild "+name+" from the log?") {
			t.Errorf("%d %s", asked.Code, asked.Body)
		}
		if said := f.ada.act(t, path, form("action", "rebuild", "name", name, "confirmed", "yes")); !strings.Contains(said,
			"The rebuild of "+name+" has begun") {
			t.Error(said)
		}
		testdb.Eventually(t, name+" is rebuilt", func() bool {
			page := f.auditor.get(t, path)
			return strings.Contains(page, name+", by <bdi>Ada</bdi>") && strings.Contains(page, ">rebuilt</span> from")
		})
		if !testdb.Value[bool](t, f.staff.Pool,
			`SELECT finished_at IS NOT NULL FROM projection_rebuilds WHERE name = $1`, name) {
			t.Error(name, "was not rebuilt")
		}
	}
	testdb.Exec(t, f.staff.Pool, `INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, event_source,
    event_type, data, batch_id) SELECT max(log_index) + 1, 'novel', gen_random_uuid(), 1, 'poison', 'staff/by hand',
    'novel.created.v1', '{"title": 5}', gen_random_uuid() FROM events`)
	poison := testdb.Value[string](t, f.staff.Pool, `SELECT max(log_index)::text FROM events`)
	f.wake.Signal()
	failed := func() bool {
		list := testdb.Must(projections.List(t.Context(), f.staff.Pool))(t)
		for _, p := range list {
			if p.Name == "novels" {
				return p.State == projections.Failed
			}
		}
		return false
	}
	testdb.Eventually(t, "novels has failed", failed)
	if page := f.ada.get(t, path); !strings.Contains(page, "projection novels has stopped at an event") ||
		!strings.Contains(page, `<a href="/console/history/`+poison+`">event `+poison) {
		t.Error(page)
	}
	for _, c := range []struct {
		form url.Values
		want string
	}{
		{form("action", "rebuild", "name", "nothing"), "There is no such projection."},
		{form("action", "retry", "name", "nothing"), "There is no such projection."},
		{form("action", "skip", "name", "novels", "event", poison), "reason: is required"},
		{
			form("action", "skip", "name", "novels", "event", "0", "reason", "why", "confirmed", "yes"),
			"novels has not failed, or goes on already.",
		},
		{
			form("action", "skip", "name", "novels", "event", poison, "reason", f.adaKey.Reveal(), "confirmed", "yes"),
			"has an API key in it",
		},
		{form("action", "retry", "name", "novels"), "novels tries again."},
	} {
		if said := f.ada.act(t, path, c.form); !strings.Contains(said, c.want) {
			t.Errorf("%v: %q, want %q", c.form, said, c.want)
		}
	}
	testdb.Eventually(t, "novels has failed again", failed)
	skip := form("action", "skip", "name", "novels", "event", poison, "reason", "written <by hand>")
	if refused := f.auditor.post(t, path, skip); refused.Code != http.StatusForbidden {
		t.Errorf("an auditor: %d", refused.Code)
	}
	asked := f.ada.post(t, path, skip)
	if asked.Code != http.StatusOK ||
		!strings.Contains(asked.Body.String(), "The log records your name and the reason: written &lt;by hand&gt;") {
		t.Errorf("%d %s", asked.Code, asked.Body)
	}
	skip.Set("confirmed", "yes")
	if said := f.ada.act(t, path, skip); said != "novels goes on without event "+poison+" (novel.created.v1)." {
		t.Error(said)
	}
	if said := f.ada.act(t, path, skip); said != "novels has not failed, or goes on already." {
		t.Error("sent twice:", said)
	}
	if got := testdb.Value[string](t, f.staff.Pool, `SELECT concat_ws(' ', actor, data->>'projection', data->>'logIndex', data->>'reason')
    FROM events WHERE event_type = 'projection.event_skipped.v1'`); got != "staff:Ada novels "+poison+" written <by hand>" {
		t.Error(got)
	}
}
