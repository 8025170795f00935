package console_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"novelgate/aggregates/principal"
	"novelgate/internal/testdb"
)

// TestSession: a session lasts twelve hours, until it is ended, or until its key is revoked, and a stolen cookie is
// worth nothing afterwards.
func TestSession(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	isIn := func(b *browser) bool {
		w := b.do(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/console/comments", nil))
		return w.Code == http.StatusOK
	}
	ended, late, revoked := f.signIn(t, f.adaKey), f.signIn(t, f.adaKey), f.signIn(t, f.adaKey)
	stolen := &browser{f, ended.cookie}
	ended.post(t, "/console/sign-out", url.Values{})
	if isIn(ended) || isIn(stolen) || !isIn(late) {
		t.Error("signing out ends one session")
	}
	f.now = time.Now().Add(12*time.Hour + time.Second)
	if isIn(late) {
		t.Error("a session lasts longer than twelve hours")
	}
	f.now = time.Time{}
	keys := testdb.Must(f.staff.UserKeys(t.Context(), principal.Staff))(t)
	testdb.Must(f.staff.RevokeUserKey(t.Context(), keys[0].ID, "gone"))(t)
	if isIn(revoked) || isIn(f.ada) || !isIn(f.auditor) {
		t.Error("a revoked key ends its sessions")
	}
}

// TestSignIn: a session has a new token, whatever cookie the browser had. Its cookie is kept from scripts, other hosts
// and other sites. Only a path of the console follows.
func TestSignIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fixed := &http.Cookie{Name: f.ada.cookie.Name, Value: strings.Repeat("A", 43)}
	b := &browser{f, fixed}
	b.post(t, "/console/sign-in", url.Values{"key": {f.adaKey.Reveal()}})
	c := b.cookie
	if c.Value == fixed.Value || c.Name != "__Host-novelgate" || !c.HttpOnly || !c.Secure || c.Path != "/" ||
		c.Domain != "" || c.SameSite != http.SameSiteStrictMode || c.MaxAge != 12*60*60 {
		t.Errorf("%+v", c)
	}
	for to, want := range map[string]string{
		"": "/console/queue/reported", "/comments?state=hidden": "/console/comments?state=hidden",
		"//evil.example": "/console/queue/reported", "https://evil.example/": "/console/queue/reported",
		`/\evil.example`: "/console/queue/reported",
	} {
		w := b.post(t, "/console/sign-in", url.Values{"key": {f.adaKey.Reveal()}, "to": {to}})
		if got := w.Header().Get("Location"); got != want {
			t.Errorf("%q leads to %q, want %q", to, got, want)
		}
	}
	stranger := &browser{fixture: f}
	if page := stranger.get(t, "/console/sign-in"); !strings.Contains(page, "only over https") {
		t.Error("a browser that will not keep the session is not told so")
	}
	w := stranger.do(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/console/comments?state=hidden", nil))
	if got := w.Header().Get("Location"); got != "/console/sign-in?to=%2Fcomments%3Fstate%3Dhidden" {
		t.Errorf("without a session: %d, %q", w.Code, got)
	}
}

// TestWrongKeys: a wrong key is refused with the reason, is logged without its secret, and after ten attempts even a
// right one must wait. A proxy's clients are distinguished.
func TestWrongKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	try := func(from, key string) int {
		form := url.Values{"key": {key}}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/console/sign-in",
			strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("X-Forwarded-For", "203.0.113.9, "+from)
		r.RemoteAddr = "127.0.0.1:1"
		return (&browser{fixture: f}).do(r).Code
	}
	_, partner, err := f.staff.IssueUserKey(t.Context(), principal.Staff, "Eve", time.Nanosecond)
	testdb.NoError(t, err)
	f.now = time.Now()
	for _, key := range []string{"", "nonsense", partner.Reveal(), strings.Repeat("x", 4000), "\x00"} {
		if got := try("198.51.100.1", key); got != http.StatusUnauthorized {
			t.Errorf("%.20q: %d", key, got)
		}
	}
	short, password := f.adaKey.Reveal()[:39], "correct horse battery staple"
	for _, secret := range []string{short, password, strings.Repeat(" x", 20) + f.adaKey.Reveal(), "", ""} {
		try("198.51.100.1", secret)
	}
	if got := try("198.51.100.1", f.adaKey.Reveal()); got != http.StatusTooManyRequests {
		t.Errorf("an eleventh attempt: %d", got)
	}
	if got := try("198.51.100.2", f.adaKey.Reveal()); got != http.StatusSeeOther {
		t.Errorf("another client: %d", got)
	}
	f.now = f.now.Add(time.Minute)
	if got := try("198.51.100.1", f.adaKey.Reveal()); got != http.StatusSeeOther {
		t.Errorf("a minute later: %d", got)
	}
	if text := f.log.String(); strings.Contains(text, partner.Reveal()[:12]) || strings.Contains(text, short[:12]) ||
		strings.Contains(text, password) || !strings.Contains(text, partner.Reveal()[:8]+"…") ||
		!strings.Contains(text, "198.51.100.1") || !strings.Contains(text, "signed in to the console") {
		t.Error(text)
	}
}

// TestForms: an action needs a form of this site, a member of staff, and the identifier of the form; an auditor reads.
func TestForms(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	send := func(b *browser, headers ...string) int {
		form := url.Values{"once": {"01a22456-fd6a-7c48-b4c2-23468d9c4072"}, "decision": {"hide"}}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://novels.example/console/comments",
			strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		return b.do(r).Code
	}
	for _, c := range []struct {
		who     *browser
		headers []string
		want    int
	}{
		{f.ada, []string{"Sec-Fetch-Site", "same-origin"}, http.StatusBadRequest}, // no comment is selected
		{f.ada, []string{"Origin", "https://novels.example"}, http.StatusBadRequest},
		{f.ada, []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		{f.ada, []string{"Sec-Fetch-Site", "same-site"}, http.StatusForbidden},
		{f.ada, []string{"Origin", "https://evil.example"}, http.StatusForbidden},
		{f.ada, []string{"Origin", "null"}, http.StatusForbidden},
		{f.auditor, []string{"Sec-Fetch-Site", "same-origin"}, http.StatusForbidden},
		{&browser{fixture: f}, []string{"Sec-Fetch-Site", "same-origin"}, http.StatusSeeOther}, // to the sign-in
	} {
		if got := send(c.who, c.headers...); got != c.want {
			t.Errorf("%v: %d, want %d", c.headers, got, c.want)
		}
	}
	f.auditor.get(t, "/console/comments")
	got := f.ada.act(t, "/console/comments", url.Values{"back": {"/comments"}, "decision": {"hide"}, "once": {"x"}})
	if !strings.Contains(got, "identifier") {
		t.Errorf("without an identifier: %q", got)
	}
}

// TestEveryRoute: without a session every page leads to the sign-in, and every form is refused to auditors, to other
// sites and without a session. No answer may be framed, cached or run a script of somebody else.
func TestEveryRoute(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	stranger := &browser{fixture: f}
	variables := regexp.MustCompile(`\{[^}]*\}`)
	seen := map[string]bool{}
	testdb.NoError(t, f.router.Walk(func(route *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		template, _ := route.GetPathTemplate()
		methods, _ := route.GetMethods()
		path := strings.ReplaceAll(template, "{queue:reported|novels}", "novels")
		path = variables.ReplaceAllString(path, uuid.Nil.String())
		if strings.Contains(path, "/sign-") || strings.Contains(path, "/assets/") {
			return nil
		}
		for _, method := range methods {
			forbidden := func(code int) bool { return method != http.MethodPost || code == http.StatusForbidden }
			for _, c := range []struct {
				who     *browser
				site    string
				allowed func(code int) bool
			}{
				{stranger, "same-origin", func(code int) bool { return code == http.StatusSeeOther }},
				{f.auditor, "same-origin", forbidden},
				{f.ada, "cross-site", forbidden},
				{f.ada, "same-site", forbidden},
				{f.ada, "same-origin", func(code int) bool { return code < 500 }},
			} {
				r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader("once="+uuid.NewString()))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				r.Header.Set("Sec-Fetch-Site", c.site)
				w := c.who.do(r)
				h := w.Header()
				if !c.allowed(w.Code) || h.Get("Cache-Control") != "no-store" ||
					!strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
					t.Errorf("%s %s from %s: %d %v %.300s", method, path, c.site, w.Code, h, w.Body)
				}
				if location := h.Get("Location"); c.who == stranger && !strings.HasPrefix(location, "/console/sign-in") {
					t.Errorf("%s %s leads a stranger to %q", method, path, location)
				}
			}
			seen[method+" "+template] = true
		}
		return nil
	}))
	if len(seen) < 10 {
		t.Errorf("only %v", seen)
	}
}
