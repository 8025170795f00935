package console_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"novelgate/aggregates/novel"
)

// TestComments: the list has the filters of the API, by names and days, and decides about many at once, also about all
// that match its filters, after asking.
func TestComments(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p, other := f.partner(t, "Fan Site"), f.partner(t, "Other Site")
	n, heike := f.novel(t, p, "Genji", novel.Approved), f.novel(t, p, "Heike", novel.Approved)
	var posts []uuid.UUID
	for _, c := range []struct {
		partner, novel uuid.UUID
		text           string
		reports        int
	}{{p, n, "ONE", 1}, {p, n, "TWO", 0}, {other, n, "THREE", 0}, {p, heike, "FOUR", 2}} {
		posts = append(posts, f.comment(t, c.partner, c.novel, "ann", c.text, c.text, c.reports))
	}
	listed := func(query string) (found string) {
		page := f.auditor.get(t, "/console/comments?"+query)
		for _, text := range []string{"ONE", "TWO", "THREE", "FOUR"} {
			if strings.Contains(page, ">"+text+"<") {
				found += text + " "
			}
		}
		return found
	}
	for query, want := range map[string]string{
		"": "ONE TWO THREE FOUR ", "state=reported": "ONE FOUR ", "novel=genji": "ONE TWO THREE ", "from=2100-01-01": "",
		"to=2020-01-01": "", "integration=" + other.String(): "THREE ", "state=&novel=&chapter=none": "ONE TWO THREE FOUR ",
	} {
		if got := listed(query); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	for query, want := range map[string]string{
		"novel=nothing": "novel: no novel has this title", "from=yesterday": "from: must be a day",
		"state=wrong": "state: must be", "text=a": "--search-comments", "unknown=1": "unknown",
	} {
		w := f.ada.do(newGet(t, "/console/comments?"+query))
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}

	some := form(url.Values{"back": {"/comments"}}, "decision", "hide", "reason", "rude", "post", posts[1].String(),
		"post", posts[2].String())
	if got := f.ada.act(t, "/console/comments", some); got != "Hidden: 2 comments." {
		t.Errorf("%q", got)
	}
	if got := listed("state=hidden"); got != "TWO THREE " {
		t.Errorf("hidden: %q", got)
	}
	f.ada.act(t, "/console/undo", form(url.Values{"back": {"/comments"}}))
	if got := listed("state=hidden"); got != "" {
		t.Errorf("hidden after undo: %q", got)
	}

	const path = "/console/comments?novel=Genji"
	all := form(url.Values{"back": {"/comments"}}, "decision", "hide", "reason", "rude", "all", "yes")
	asked := f.ada.post(t, path, all).Body.String()
	if !strings.Contains(asked, "3 comments match.") || listed("state=hidden") != "" {
		t.Errorf("asked %s", asked)
	}
	confirmed := form(all, "confirmed", "yes")
	for _, post := range posts[:3] {
		if !strings.Contains(asked, `name="post" value="`+post.String()) {
			t.Errorf("%s is not asked about", post)
		}
		confirmed.Add("post", post.String())
	}
	confirmed.Del("once")
	if got := f.ada.act(t, path, confirmed); got != "Hidden: 3 comments." {
		t.Errorf("%q", got)
	}
	if got := listed("state=hidden"); got != "ONE TWO THREE " {
		t.Errorf("hidden: %q", got)
	}
}

// TestHostileComments: texts and names of partners are text, on the lists and on the page of a comment.
func TestHostileComments(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.partner(t, "<i>Site</i>")
	n := f.novel(t, p, `"><script>alert(1)</script>`, novel.Approved)
	post := f.comment(t, p, n, `../?a=b#<svg/onload=alert(1)>`, "k", "</div><script>alert(2)</script>\x01\u202e", 1)
	for _, path := range []string{
		"/console/comments", "/console/comments/" + post.String(), "/console/queue/reported", "/console/comments?novel=" +
			url.QueryEscape(`"><script>alert(1)</script>`),
	} {
		page := f.ada.get(t, path)
		for _, raw := range []string{"<script>alert", "<i>Site", "<svg", "\x01", "/authors/../"} {
			if strings.Contains(page, raw) {
				t.Errorf("%s has %q", path, raw)
			}
		}
	}
}

func newGet(t *testing.T, path string) *http.Request {
	t.Helper()
	return httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
}
