package console_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"novelgate/aggregates/novel"
	"novelgate/aggregates/principal"
	"novelgate/commands"
	"novelgate/commands/staff"
	"novelgate/commands/webhooks"
	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/auth"
	"novelgate/internal/console"
	"novelgate/internal/database"
	"novelgate/internal/problem"
	"novelgate/internal/testdb"
	"novelgate/internal/title"
	"novelgate/internal/web"
	"novelgate/projections"
	"novelgate/readapi"
	"novelgate/readapi/history"
)

func TestMain(m *testing.M) { os.Exit(testdb.Run(m)) }

// fixture is the console on its own database.
type fixture struct {
	console      *console.Console
	handler      http.Handler
	router       *mux.Router
	wake         *eventlog.Wake // of the projections
	staff        *staff.Staff
	adaKey       auth.Secret
	ada, auditor *browser // signed in
	log          *bytes.Buffer
	now          time.Time // of the service; zero: the clock
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return newFixtureOn(t, testdb.New(t))
}

// newFixtureOn returns a fixture on a database.
func newFixtureOn(t *testing.T, databaseURL string) *fixture {
	t.Helper()
	pool := testdb.Pool(t, databaseURL)
	f := &fixture{
		log: &bytes.Buffer{}, wake: eventlog.NewWake(),
		staff: &staff.Staff{Pool: pool, Actor: "staff:setup", Now: time.Now},
	}
	now := func() time.Time {
		if f.now.IsZero() {
			return time.Now()
		}
		return f.now
	}
	kit := &web.Kit{
		Logger: slog.New(slog.NewTextHandler(f.log, nil)), Timeout: time.Minute, Now: now, Metrics: web.NewMetrics(),
		Problems: []func(error) *problem.Error{commands.Problem, staff.Problem, readapi.Problem, history.Problem},
	}
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(kit.Metrics)
	public := testdb.Must(url.Parse("https://novels.example"))(t)
	c := testdb.Must(console.New(console.Config{
		Kit: kit, Keys: auth.NewKeys(pool, now), Pool: pool, Access: pool, History: pool,
		Addresses: web.NewAddresses(public), Origins: []string{public.String()}, Metrics: console.NewMetrics(),
		Sender:  webhooks.NewSender([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, time.Now),
		Version: "1.2.3", Gatherer: metrics,
		Diagnose: func(ctx context.Context) []database.Finding { return database.Diagnose(ctx, pool, now) },
	}))(t)
	f.console = c
	runner := testdb.Must(projections.NewRunner(projections.Config{
		Pool: pool, Wake: f.wake, Logger: slog.New(slog.DiscardHandler),
	}))(t)
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- runner.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		testdb.NoError(t, <-stopped)
	})
	router := mux.NewRouter().SkipClean(true)
	c.Register(router)
	f.router, f.handler = router, kit.Handler(router, nil)
	f.adaKey = f.person(t, principal.Staff, "Ada")
	f.ada, f.auditor = f.signIn(t, f.adaKey), f.signIn(t, f.person(t, principal.Auditor, "Otto"))
	return f
}

func (f *fixture) person(t *testing.T, role, name string) auth.Secret {
	t.Helper()
	_, secret, err := f.staff.IssueUserKey(t.Context(), role, name, 0)
	testdb.NoError(t, err)
	return secret
}

// browser keeps the cookie of a session, and sends forms as browsers do.
type browser struct {
	*fixture

	cookie *http.Cookie
}

// signIn signs a person in.
func (f *fixture) signIn(t *testing.T, key auth.Secret) *browser {
	t.Helper()
	b := &browser{fixture: f}
	a := b.post(t, "/console/sign-in", url.Values{"key": {key.Reveal()}})
	if a.Code != http.StatusSeeOther || b.cookie == nil {
		t.Fatalf("%d %s", a.Code, a.Body)
	}
	return b
}

// do sends a request, and takes over the cookie of the answer.
func (b *browser) do(r *http.Request) *httptest.ResponseRecorder {
	if b.cookie != nil {
		r.AddCookie(b.cookie)
	}
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	for _, cookie := range w.Result().Cookies() {
		b.cookie = cookie
	}
	return w
}

// get returns a page, which must be there.
func (b *browser) get(t *testing.T, path string) string {
	t.Helper()
	w := b.do(httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s\n%s", path, w.Code, w.Body, b.log)
	}
	return w.Body.String()
}

var undoPattern = regexp.MustCompile(`name="undo" value="([^"]*)"`)

// post sends a form, with the identifiers that a page would have given it.
func (b *browser) post(t *testing.T, path string, form url.Values) *httptest.ResponseRecorder {
	t.Helper()
	if !form.Has("once") {
		form.Set("once", uuid.NewString())
	}
	if path == "/console/undo" && !form.Has("undo") {
		if found := undoPattern.FindStringSubmatch(b.get(t, "/console/partners")); found != nil {
			form.Set("undo", found[1])
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return b.do(r)
}

var noticePattern = regexp.MustCompile(`<p class="notice[^>]*>([^<]*)</p>`)

// act sends a form, and returns the notice on the page to which it leads.
func (b *browser) act(t *testing.T, path string, form url.Values) string {
	t.Helper()
	w := b.post(t, path, form)
	if w.Code != http.StatusSeeOther {
		t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	found := noticePattern.FindStringSubmatch(b.get(t, w.Header().Get("Location")))
	if found == nil {
		return ""
	}
	return found[1]
}

// partner creates an integration.
func (f *fixture) partner(t *testing.T, name string) uuid.UUID {
	t.Helper()
	return testdb.Must(f.staff.CreateIntegration(t.Context(), name, principal.Change{}))(t).ID
}

// append appends events as a partner's or the staff's commands do, and waits until the tables have followed.
func (f *fixture) append(t *testing.T, recorded ...events.Recorded) {
	t.Helper()
	testdb.NoError(t, eventlog.Under(t.Context(), f.staff.Pool, func(tx pgx.Tx) error {
		return projections.Append(t.Context(), tx, recorded...)
	}))
	f.await(t)
}

// await waits until the tables have followed the log.
func (f *fixture) await(t *testing.T) {
	t.Helper()
	f.wake.Signal()
	testdb.Eventually(t, "the projections follow", func() bool {
		return testdb.Value[bool](t, f.staff.Pool,
			`SELECT count(*) = $1 AND bool_and(position > (SELECT max(log_index) FROM events)) FROM projections`,
			len(projections.All()))
	})
}

// novel creates a partner's novel in a state.
func (f *fixture) novel(t *testing.T, partner uuid.UUID, spelled string, state novel.State) uuid.UUID {
	t.Helper()
	id := events.NovelID(title.Fold(spelled))
	f.append(t, events.Recorded{
		StreamType: events.NovelStream, StreamID: id, StreamVersion: 1, ID: "import of " + spelled,
		Source: events.NovelsSource(partner),
		Event: events.NovelCreated{
			Title: spelled, Slug: title.Slug(spelled), Author: "Unknown", OwnerID: &partner, State: string(state),
		},
	})
	return id
}

// comment imports a comment with a key on a novel, and reports it as spam as often as it has reports.
func (f *fixture) comment(t *testing.T, partner, novel uuid.UUID, author, key, text string, reports int) uuid.UUID {
	t.Helper()
	f.append(t, imported(partner, novel, author, key, text, reports)...)
	return events.PostID(partner, key)
}

// imported are the events of a comment.
func imported(partner, novel uuid.UUID, author, key, text string, reports int) []events.Recorded {
	id := events.PostID(partner, key)
	recorded := []events.Recorded{{
		StreamType: events.PostStream, StreamID: id, StreamVersion: 1, ID: key, Source: events.PostsSource(partner),
		Event: events.PostImported{
			NovelID: novel, ThreadID: events.ThreadID(novel), IntegrationID: partner, WrittenAt: time.Now().UTC(),
			Comment: &events.Comment{ExternalUUID: author, Username: author, Content: text},
		},
	}}
	for i := range reports {
		recorded = append(recorded, events.Recorded{
			StreamType: events.PostStream, StreamID: id, StreamVersion: 2 + i, ID: fmt.Sprint("report ", i, " of ", key),
			Source: events.PostsSource(partner), Event: events.PostReported{
				IntegrationID: partner, Reason: "spam", Reports: 1,
				Report: &events.Report{IntegrationID: partner, ExternalUUID: author, Detail: "Look at <this>."},
			},
		})
	}
	return recorded
}

// latest returns type, actor and reason of the latest event of a stream.
func (f *fixture) latest(t *testing.T, stream uuid.UUID) string {
	t.Helper()
	return testdb.Value[string](t, f.staff.Pool, `SELECT concat_ws(' ', event_type, metadata ->> 'actor', data ->> 'reason')
FROM event_log WHERE stream_id = $1 ORDER BY stream_version DESC LIMIT 1`, stream)
}
