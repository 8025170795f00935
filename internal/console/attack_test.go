package console_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/internal/testdb"
)

// meter counts what is read of a body.
type meter struct {
	io.Reader

	read int
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	m.read += n
	return n, err
}

// TestHugeForms: nobody makes the server read more than 256 KiB, nor keep it in files, whoever sends it and from where.
func TestHugeForms(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, c := range []struct {
		who        *browser
		path, site string
	}{
		{&browser{fixture: f}, "/console/sign-in", "cross-site"},
		{&browser{fixture: f}, "/console/sign-in", "same-origin"},
		{&browser{fixture: f}, "/console/sign-out", "same-origin"},
		{f.auditor, "/console/comments", "same-origin"},
		{f.ada, "/console/comments?unknown=1", "same-origin"},
		{f.ada, "/console/comments", "same-origin"},
	} {
		for _, kind := range []string{"multipart/form-data; boundary=x", "application/x-www-form-urlencoded", "text/plain"} {
			head := "--x\r\nContent-Disposition: form-data; name=\"a\"; filename=\"b\"\r\n\r\n"
			if !strings.HasPrefix(kind, "multipart") {
				head = "a="
			}
			body := &meter{Reader: io.MultiReader(strings.NewReader(head), strings.NewReader(strings.Repeat("x", 1<<20)))}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, c.path, body)
			r.Header.Set("Content-Type", kind)
			r.Header.Set("Sec-Fetch-Site", c.site)
			if w := c.who.do(r); body.read > 300<<10 || w.Code >= 500 || w.Code == http.StatusOK {
				t.Errorf("%s from %s as %s: %d, %d bytes read", c.path, c.site, kind, w.Code, body.read)
			}
		}
	}
}

// TestReusedForm: a page to which the browser went back still has the identifier of its form. Another decision with it
// is refused, and never reported as done.
func TestReusedForm(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.partner(t, "Acme")
	n := f.novel(t, p, "Genji", novel.Approved)
	post := f.comment(t, p, n, "ann", "k", "text", 1)
	author := addressOf(p, "ann")
	for name, c := range map[string]struct {
		path          string
		first, second url.Values
	}{
		"author":  {author, url.Values{"action": {"block"}}, url.Values{"action": {"hide-posts"}}},
		"comment": {"/console/comments", url.Values{"decision": {"hide"}}, url.Values{"decision": {"restore"}}},
		"novels":  {"/console/novels", url.Values{"decision": {"reject"}}, url.Values{"decision": {"approve"}}},
		"partner": {
			"/console/partners/" + p.String(), url.Values{"action": {"disable"}}, url.Values{"action": {"enable"}},
		},
		"note": {"/console/notes", url.Values{"note": {"first"}}, url.Values{"note": {"second"}}},
	} {
		once := uuid.NewString()
		var said []string
		for _, form := range []url.Values{c.first, c.first, c.second} {
			for field, value := range map[string]string{
				"once": once, "back": strings.TrimPrefix(author, "/console"), "reason": "why", "post": post.String(),
				"novel": n.String(), "subject": post.String(),
			} {
				form.Set(field, value)
			}
			said = append(said, f.ada.act(t, c.path, form))
		}
		if said[0] != said[1] || !strings.HasPrefix(said[2], "This page was used for another decision") {
			t.Errorf("%s: %q", name, said)
		}
	}
}

// TestUndoOfAnotherTab: a button undoes what it says. If something else was decided since, it undoes nothing, and two
// tabs that undo the same decision reverse it once.
func TestUndoOfAnotherTab(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.partner(t, "Acme")
	n := f.novel(t, p, "Genji", novel.Approved)
	a, b := f.comment(t, p, n, "ann", "a", "text", 0), f.comment(t, p, n, "bob", "b", "text", 0)
	hide := func(post uuid.UUID) string {
		f.ada.act(t, "/console/comments", url.Values{
			"post": {post.String()}, "decision": {"hide"}, "reason": {"why"}, "back": {"/comments"},
		})
		return undoPattern.FindStringSubmatch(f.ada.get(t, "/console/comments"))[1]
	}
	undo := func(id string) string {
		return f.ada.act(t, "/console/undo", url.Values{"undo": {id}, "back": {"/comments"}})
	}
	old, latest := hide(a), hide(b)
	if got := undo(old); !strings.HasPrefix(got, "You have decided something else since") {
		t.Error(got)
	}
	hidden := "post.hidden.v1 staff:Ada why"
	if f.latest(t, a) != hidden || f.latest(t, b) != hidden {
		t.Error("a button that was out of date has undone something")
	}
	done := make(chan string, 2)
	for range 2 {
		second := &browser{f, f.ada.cookie}
		go func() {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/console/undo", strings.NewReader(
				url.Values{"undo": {latest}, "back": {"/comments"}, "once": {uuid.NewString()}}.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			done <- second.do(r).Header().Get("Location")
		}()
	}
	<-done
	<-done
	if got := testdb.Value[int](t, f.staff.Pool, `SELECT count(*) FROM events WHERE stream_id = $1`, b); got != 3 {
		t.Errorf("%d events of a comment that was hidden and restored", got)
	}
}

// TestDirections: names of partners cannot turn the words of a question or of an outcome around.
func TestDirections(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.partner(t, "Acme")
	f.comment(t, p, f.novel(t, p, "Genji", novel.Approved), "Ann\u202e", "k", "text", 0)
	path := addressOf(p, "Ann\u202e")
	asked := f.ada.post(t, path, url.Values{"action": {"erase"}, "reason": {"why"}}).Body.String()
	if !strings.Contains(asked, "Erase Ann") || strings.Contains(asked, "\u202e") {
		t.Error(asked)
	}
	said := f.ada.act(t, path, url.Values{
		"action": {"block"}, "reason": {"why"}, "back": {strings.TrimPrefix(path, "/console")},
	})
	label := undoLabel(f.ada.get(t, "/console/partners"))
	if said != "Blocked Ann." || !strings.Contains(label, "Unblock Ann ") {
		t.Errorf("%q, %q", said, label)
	}
}

func undoLabel(page string) string {
	_, label, _ := strings.Cut(page, `data-key="z">`)
	label, _, _ = strings.Cut(label, "<kbd>")
	return label
}

// TestHostileAddresses: no address makes the server fail, and none that a form sends leads out of the console.
func TestHostileAddresses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.partner(t, "Acme").String()
	for _, path := range []string{
		"/history/%00", "/history/streams/novel/%00", "/history/streams/%00/" + p, "/history/streams/novel/%ff",
		"/history?actor=%00", "/history?day=x&actor=%ff", "/authors/" + p + "/%00", "/authors/" + p + "/%ff",
		"/partners/%00", "/comments/%00", "/novels/%0d%0a", "/comments?cursor=%00", "/novels?cursor=AAAA",
		"/authors?cursor=x",
		"/queue/reported?item=%00", "/partners/" + p + "/deliveries?key=%00", "/history/99999999999999999999",
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			w := f.ada.do(httptest.NewRequestWithContext(t.Context(), method, "/console"+path, nil))
			if w.Code >= 500 {
				t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
			}
		}
	}
	for _, to := range []string{
		"//evil.example", `/\evil.example`, "/../novels/evil", "/comments/../../novels/evil", "/%2e%2E/novels/evil",
		"/.%2e//evil.example", "/..", "https:evil.example", "evil.example", "@evil.example", "/\tevil",
		"/\r\nevil: a=b",
	} {
		w := f.ada.post(t, "/console/sign-in", url.Values{"key": {"x"}, "to": {to}})
		if strings.Contains(w.Body.String(), "evil") {
			t.Errorf("the sign-in keeps %q", to)
		}
		for _, c := range []struct{ path, field string }{
			{"/console/notes", "back"}, {"/console/queue/reported", "next"},
		} {
			w := f.ada.post(t, c.path, url.Values{
				c.field: {to}, "subject": {p}, "note": {"n"}, "post": {p}, "decision": {"hide"},
			})
			if got := w.Header().Get("Location"); strings.Contains(got, "evil") || strings.Contains(got, "..") {
				t.Errorf("%q as %s leads to %q", to, c.field, got)
			}
		}
	}
}

// TestAttempts: a client cannot choose the address for which its attempts count: neither by a header, nor within its
// network of IPv6. Only a proxy nearby says who the client is.
func TestAttempts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.now = time.Now()
	for name, c := range map[string]struct{ remote, forwarded string }{
		"header":            {"203.0.113.5:1", "198.51.100.%d"},
		"IPv6":              {"[2001:db8::%x]:1", ""},
		"port":              {"10.0.0.1:1", "192.0.2.7:%d"},
		"IPv6 at the proxy": {"10.0.0.1:1", "192.0.2.1, 2001:db8:1::%x"},
		"mapped":            {"[::ffff:10.0.0.2]:1", "192.0.2.%d, 192.0.2.200"},
		"nonsense":          {"127.0.0.1:1", "nonsense %d"},
	} {
		fill := func(text string, i int) string {
			if strings.Contains(text, "%") {
				return fmt.Sprintf(text, i)
			}
			return text
		}
		code := 0
		for i := range 11 {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/console/sign-in", strings.NewReader("key=x"))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if r.RemoteAddr = fill(c.remote, i); c.forwarded != "" {
				r.Header.Set("X-Forwarded-For", fill(c.forwarded, i))
			}
			code = (&browser{fixture: f}).do(r).Code
		}
		if code != http.StatusTooManyRequests {
			t.Errorf("%s: an eleventh attempt: %d", name, code)
		}
	}
}

// TestPastedKey: a key that somebody pastes into a note or a filter is not kept.
func TestPastedKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.partner(t, "Acme").String()
	got := f.ada.act(t, "/console/notes", url.Values{
		"subject": {p}, "note": {"They use " + f.adaKey.Reveal()}, "back": {"/partners/" + p},
	})
	kept := testdb.Value[int](t, f.staff.Pool, `SELECT count(*) FROM console_notes`)
	if !strings.Contains(got, "has an API key in it") || kept != 0 {
		t.Errorf("%q, %d notes", got, kept)
	}
	f.auditor.get(t, "/console/history?correlation="+f.adaKey.Reveal())
	read := testdb.Value[string](t, f.staff.Pool, `SELECT parameters::text FROM access_log ORDER BY entry_id DESC LIMIT 1`)
	if strings.Contains(read, f.adaKey.Reveal()) || !strings.Contains(read, f.adaKey.Reveal()[:8]+"…") {
		t.Errorf("the access log has %s", read)
	}
}
