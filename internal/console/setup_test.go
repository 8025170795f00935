package console_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"novelgate/aggregates/principal"
	"novelgate/commands"
	"novelgate/commands/staff"
	"novelgate/internal/auth"
	"novelgate/internal/console"
	"novelgate/internal/problem"
	"novelgate/internal/testdb"
	"novelgate/internal/web"
	"novelgate/readapi"
	"novelgate/readapi/history"
)

func TestMain(m *testing.M) { os.Exit(testdb.Run(m)) }

// fixture is the console on its own database.
type fixture struct {
	handler      http.Handler
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

func newFixtureOn(t *testing.T, database string) *fixture {
	t.Helper()
	pool := testdb.Pool(t, database)
	f := &fixture{log: &bytes.Buffer{}, staff: &staff.Staff{Pool: pool, Actor: "staff:setup", Now: time.Now}}
	now := func() time.Time {
		if f.now.IsZero() {
			return time.Now()
		}
		return f.now
	}
	kit := &web.Kit{
		Logger: slog.New(slog.NewTextHandler(f.log, nil)), Timeout: time.Minute, Now: now,
		Problems: []func(error) *problem.Error{commands.Problem, staff.Problem, readapi.Problem, history.Problem},
	}
	public := testdb.Must(url.Parse("https://novels.example"))(t)
	c := testdb.Must(console.New(console.Config{
		Kit: kit, Keys: auth.NewKeys(pool, now), Pool: pool, Access: pool, History: pool,
		Addresses: web.NewAddresses(public), Origins: []string{public.String()}, Metrics: console.NewMetrics(),
	}))(t)
	router := mux.NewRouter().SkipClean(true)
	c.Register(router)
	f.handler = kit.Handler(router, nil)
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
		t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

// post sends a form, with the identifier that a page would have given it.
func (b *browser) post(t *testing.T, path string, form url.Values) *httptest.ResponseRecorder {
	t.Helper()
	if !form.Has("once") {
		form.Set("once", uuid.NewString())
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
