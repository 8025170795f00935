package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"novelgate/internal/testdb"
)

// anyOrder has the commands of several clients about comments of one partner, over two replicas.
type anyOrder struct {
	t        testing.TB
	replicas [2]atomic.Pointer[Service]
	partner  *Partner
	staff    *Person
	novels   []string // slugs
	authors  []*deed  // that are blocked, or erased

	mu       sync.Mutex
	comments []*deed
}

// deed is a comment, or an author, with the commands about it.
type deed struct {
	key, id string
	author  string
	novel   int
	parent  *deed
	staff   sync.Mutex // one decision of staff at a time, so that their order is known

	mu   sync.Mutex
	done []*done // in the order of the answers
}

// done is a command with its only effective answer.
type done struct {
	kind           string
	sent, answered time.Time // first attempt, and first answer
	status         int
	code           string
	key            string
	text           string // of a comment or an edit; "" if unchanged
	chapter        string // likewise; "null" for none
	at             time.Time
	reports        int
	words          []string // that the log has
}

func (d *done) ok() bool { return d.status == http.StatusOK || d.status == http.StatusCreated }

// all returns the accepted commands of some kinds.
func (d *deed) all(kinds ...string) (found []*done) {
	for _, c := range d.done {
		if c.ok() && slices.Contains(kinds, c.kind) {
			found = append(found, c)
		}
	}
	return found
}

// insist sends a command to any replica until it has an answer that holds, and some accepted ones again.
func (a *anyOrder) insist(on *deed, c *done, r Request) Response {
	c.sent, c.key = time.Now(), r.Key
	var answer Response
	for tries := 0; ; tries++ {
		var err error
		r.Once = true
		answer, err = a.replicas[rand.IntN(2)].Load().do(context.Background(), r)
		if err == nil && answer.Status < http.StatusInternalServerError &&
			!strings.Contains(string(answer.Body), `"retryable":true`) {
			break
		}
		if time.Since(c.sent) > patience {
			a.t.Errorf("%s of %s has no answer: %d %v\n%s", c.kind, on.key, answer.Status, err, answer.Body)
			break
		}
		if err == nil && answer.Status == http.StatusInternalServerError {
			a.t.Errorf("%s of %s: %s", c.kind, on.key, answer.Body)
		}
		time.Sleep(time.Duration(1+min(tries, 20)) * 2 * time.Millisecond)
	}
	c.answered, c.status = time.Now(), answer.Status
	var body struct{ Code, PostID string }
	if err := json.Unmarshal(answer.Body, &body); err != nil {
		a.t.Errorf("%s of %s: %d %s", c.kind, on.key, answer.Status, answer.Body)
	}
	c.code = body.Code
	on.mu.Lock()
	on.done = append(on.done, c)
	on.mu.Unlock()
	if c.ok() && rand.IntN(4) == 0 && c.kind != "erase" {
		a.again(on, c, r, body.PostID)
	}
	return answer
}

// again repeats an accepted command, whatever came since. The replica may be killed.
func (a *anyOrder) again(on *deed, c *done, r Request, postID string) {
	answer, err := a.replicas[rand.IntN(2)].Load().do(context.Background(), r)
	if err != nil || answer.Status >= http.StatusInternalServerError {
		return
	}
	var body struct{ PostID string }
	if answer.Status != http.StatusOK || json.Unmarshal(answer.Body, &body) != nil || body.PostID != postID {
		a.t.Errorf("a retry of %s of %s: %d %s", c.kind, on.key, answer.Status, answer.Body)
	}
}

// pick returns any comment, half of the times one of the latest, so that commands meet.
func (a *anyOrder) pick() *deed {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.comments) == 0 {
		return nil
	}
	n := len(a.comments)
	if rand.IntN(2) == 0 {
		return a.comments[n-1-rand.IntN(min(n, 4))]
	}
	return a.comments[rand.IntN(n)]
}

func word() string { return "planted" + strings.ReplaceAll(uuid.NewString(), "-", "") }

// deliver adds a comment: of an author who may be blocked or erased, or of one of its own.
func (a *anyOrder) deliver() {
	c := &deed{key: "key/" + Key() + `%2F"'`, author: word(), novel: rand.IntN(len(a.novels))}
	if rand.IntN(3) > 0 {
		c.author = a.authors[rand.IntN(len(a.authors))].author
	}
	d := &done{kind: "deliver", text: word(), chapter: "null"}
	name := word()
	d.words = []string{d.text, name}
	body := Comment(strings.ReplaceAll(a.novels[c.novel], "-", " ")).
		With(Fields{"content": d.text, "username": name, "uuid": c.author})
	if p := a.pick(); p != nil && rand.IntN(2) == 0 && p.novel == c.novel {
		c.parent = p
		body["parent_uuid"] = p.key
	}
	answer := a.insist(c, d, a.partner.Request(PostsPath, c.key, body.JSON(a.t)))
	var post Post
	if d.ok() && json.Unmarshal(answer.Body, &post) == nil {
		c.id = post.PostID
		a.mu.Lock()
		a.comments = append(a.comments, c)
		a.mu.Unlock()
	} else if d.code != "author_blocked" {
		a.t.Errorf("a comment: %d %s", answer.Status, answer.Body)
	}
	for _, by := range a.authors {
		if by.author == c.author {
			by.mu.Lock()
			by.done = append(by.done, d)
			by.mu.Unlock()
		}
	}
}

// change sends a change of a comment.
func (a *anyOrder) change(c *deed) {
	path := PostsPath + "/" + url.PathEscape(c.key)
	switch n := rand.IntN(10); {
	case n < 6:
		d, body := &done{kind: "edit"}, Fields{}
		if rand.IntN(3) > 0 {
			d.text = word()
			d.words, body["content"] = []string{d.text}, d.text
		}
		if d.text == "" || rand.IntN(2) == 0 {
			d.chapter = fmt.Sprint(rand.IntN(5))
			body["chapterNumber"] = json.RawMessage(d.chapter)
			if d.chapter == "0" {
				d.chapter, body["chapterNumber"] = "null", nil
			}
		}
		if rand.IntN(2) == 0 { // long before now
			d.at = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rand.Int64N(1e12)) * time.Microsecond)
			body["timestamp"] = d.at.Format(time.RFC3339Nano)
		}
		r := a.partner.Request(path, Key(), body.JSON(a.t))
		r.Method = http.MethodPatch
		a.insist(c, d, r)
	case n < 8:
		d := &done{kind: "report", reports: 1 + rand.IntN(3), text: word()}
		d.words = []string{d.text}
		if rand.IntN(2) == 0 {
			path = PostsPath + "/" + c.id
		}
		a.insist(c, d, a.partner.Request(path+"/reports", Key(),
			Fields{"reason": "spam", "detail": d.text, "reports": d.reports}.JSON(a.t)))
	case n == 8 && rand.IntN(2) == 0:
		r := a.partner.Request(path, Key(), nil)
		r.Method, r.ContentType = http.MethodDelete, ""
		a.insist(c, &done{kind: "withdraw"}, r)
	default:
		kind := []string{"hide", "restore", "dismiss-reports"}[rand.IntN(3)]
		c.staff.Lock()
		defer c.staff.Unlock()
		a.insist(c, &done{kind: kind},
			a.staff.Request("/api/admin/posts/"+c.id+"/"+kind, Key(), Fields{"reason": "why"}.JSON(a.t)))
	}
}

// decide sends a decision about an author: the first half of them is blocked, the other half erased.
func (a *anyOrder) decide() {
	n := rand.IntN(len(a.authors))
	by := a.authors[n]
	by.staff.Lock()
	defer by.staff.Unlock()
	path := a.partner.authorPath(by.author)
	if n >= len(a.authors)/2 {
		a.insist(by, &done{kind: "erase"},
			Request{Method: http.MethodDelete, Path: path + "?reason=asked", Bearer: a.staff.APIKey})
		return
	}
	kind := []string{"block", "unblock"}[rand.IntN(2)]
	a.insist(by, &done{kind: kind}, a.staff.Request(path+"/"+kind, Key(), Fields{"reason": "why"}.JSON(a.t)))
}

// latest returns the values that a comment may have after its edits: that of the latest timestamp or, of edits without
// one, those which no other one follows.
func (d *deed) latest(value func(*done) string) (possible []string) {
	timed := d.all("deliver")[0]
	var untimed []*done
	for _, e := range d.all("edit") {
		switch {
		case value(e) == "":
		case e.at.IsZero():
			untimed = append(untimed, e)
		case !e.at.Before(timed.at):
			timed = e
		}
	}
	for _, e := range untimed {
		if !slices.ContainsFunc(untimed, func(later *done) bool { return later.sent.After(e.answered) }) {
			possible = append(possible, value(e))
		}
	}
	if len(untimed) == 0 {
		possible = []string{value(timed)}
	}
	return possible
}

// hidden reports the last decision of staff. A refusal finds the comment as asked for.
func (d *deed) hidden() (is bool) {
	for _, c := range d.done {
		if (c.ok() || c.code == "invalid_transition") && (c.kind == "hide" || c.kind == "restore") {
			is = c.kind == "hide"
		}
	}
	return is
}

// reports returns how many readers at least and at most wait for a decision.
func (d *deed) reports() (least, most int) {
	var last *done
	for _, c := range d.all("hide", "restore", "dismiss-reports") {
		last = c
	}
	for _, c := range d.all("report") {
		if last == nil || c.sent.After(last.answered) {
			least += c.reports
		}
		if last == nil || c.answered.After(last.sent) {
			most += c.reports
		}
	}
	return least, most
}

// erased reports whether the comment is erased, and whether that is certain.
func (a *anyOrder) erased(d *deed) (is, certain bool) {
	delivered := d.all("deliver")[0]
	certain = true
	for _, by := range a.authors {
		if by.author != d.author {
			continue
		}
		for _, erase := range by.all("erase") {
			if erase.sent.After(delivered.answered) {
				return true, true
			}
			certain = certain && delivered.sent.After(erase.answered)
		}
	}
	return false, certain
}

// wantBlocks compares the answers with the blocks that were in force during the command.
func (a *anyOrder) wantBlocks(by *deed) {
	var decisions []*done
	for _, d := range by.done {
		if (d.kind == "block" || d.kind == "unblock") && (d.ok() || d.code == "invalid_transition") {
			decisions = append(decisions, d)
		}
	}
	check := func(d *done) {
		blocked, certain := false, true
		for _, decision := range decisions {
			if d.sent.After(decision.answered) {
				blocked = decision.kind == "block"
			} else if d.answered.After(decision.sent) {
				certain = false
			}
		}
		if certain && d.code != "gone" && blocked != (d.code == "author_blocked") {
			a.t.Errorf("%s of an author, blocked %t: %d %s", d.kind, blocked, d.status, d.code)
		}
	}
	for _, d := range by.done {
		if d.kind == "deliver" {
			check(d)
		}
	}
	for _, c := range a.comments {
		for _, d := range c.done {
			if c.author == by.author && d.kind == "edit" {
				check(d)
			}
		}
	}
}

// TestChangesInAnyOrder sends deliveries, edits, withdrawals, reports and decisions of staff at once over two replicas,
// and kills one of them twice. A sequential model tells what each comment is afterwards. No trace is left of what was
// withdrawn or erased.
func TestChangesInAnyOrder(t *testing.T) {
	t.Parallel()
	hooks := &testdb.Log{}
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(hooks, r.Body)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(endpoint.Close)
	server := startServer(t, nil)
	database := server.url()
	data := t.TempDir() // with the key of the ledger
	var started []*Service
	launch := func() *Service {
		s := servePatiently(t, database, "--data-dir", data, "--webhook-allow-cidr", "127.0.0.1/32")
		started = append(started, s)
		return s
	}
	first := launch()
	a := &anyOrder{t: t, partner: newPartner(t, database), staff: first.NewStaff(t)}
	a.partner.Service = first
	a.replicas[0].Store(first)
	a.replicas[1].Store(launch())
	a.partner.NewWebhook(t, endpoint.URL)
	for range 3 {
		a.novels = append(a.novels, strings.ReplaceAll(Unique("any"), " ", "-"))
	}
	for range 4 {
		a.authors = append(a.authors, &deed{author: word()})
	}
	const clients = 8
	steps := scaled(t, "NOVELGATE_TEST_CHANGES", 60)
	var sent atomic.Int64
	var running sync.WaitGroup
	for range clients {
		running.Go(func() {
			for range steps {
				sent.Add(1)
				c := a.pick()
				switch n := rand.IntN(20); {
				case c == nil || n < 4:
					a.deliver()
				case n == 4:
					a.decide()
				default:
					a.change(c)
				}
			}
		})
	}
	for kill := range 2 {
		testdb.Eventually(t, "the clients are at work", func() bool { return sent.Load() >= int64(clients*steps*(kill+1)/4) })
		a.replicas[kill].Load().kill()
		a.replicas[kill].Store(launch())
	}
	running.Wait()
	if t.Failed() {
		return
	}
	a.partner.Service, a.staff.Service = a.replicas[0].Load(), a.replicas[0].Load()
	awaitProjections(t, database)
	a.wantOnce(database)
	gone := a.wantComments()
	for _, by := range a.authors {
		a.wantBlocks(by)
	}
	wantSoundLog(t, database)
	awaitSigned(t, database)
	MustCLI(t, database, "events", "verify")
	a.wantNone(gone, database, started, hooks.String())
	wantNoWord(t, "a log of PostgreSQL", gone, string(postgresLog(t, server)))
}

// wantOnce compares the log with the answers: an event for each command that was accepted, and no other one.
func (a *anyOrder) wantOnce(database string) {
	for _, c := range a.comments {
		want := map[string]bool{}
		for _, d := range c.all("deliver", "edit", "report", "withdraw") {
			want[d.key] = true
		}
		connection := testdb.Connect(a.t, database)
		recorded := testdb.Values[string](a.t, connection, `SELECT event_id FROM events WHERE stream_id = $1
			AND integration_id IS NOT NULL ORDER BY stream_version`, c.id)
		_ = connection.Close(context.Background())
		withdrawals := len(c.all("withdraw"))
		if len(recorded) != len(want)-max(0, withdrawals-1) ||
			slices.ContainsFunc(recorded, func(key string) bool { return !want[key] }) {
			a.t.Errorf("%s: the log has %q, accepted were %v", c.key, recorded, want)
		}
	}
}

// wantComments compares what readers and staff see with the model. It returns the words of what is gone.
func (a *anyOrder) wantComments() (gone []string) {
	t, states := a.t, map[string]int{}
	shown := map[*deed]bool{} // readers see that there was a comment
	for _, c := range slices.Backward(a.comments) {
		shown[c] = shown[c] || len(c.all("withdraw")) == 0
		if shown[c] && c.parent != nil {
			shown[c.parent] = true
		}
	}
	kept := map[string]bool{}
	for _, c := range a.comments {
		var post struct {
			ChapterNumber             json.RawMessage
			Content                   string
			Hidden, Erased, Withdrawn bool
		}
		a.partner.Service.Send(t, Request{Path: "/api/posts/" + c.id}).WantJSON(t, http.StatusOK, &post)
		withdrawn, hidden := len(c.all("withdraw")) > 0, c.hidden()
		erased, certain := a.erased(c)
		if !certain {
			erased = post.Erased
		}
		text := c.latest(func(d *done) string { return d.text })
		chapter := c.latest(func(d *done) string { return d.chapter })
		page := "/novels/" + a.novels[c.novel] + "/discussion?post=" + c.id
		_, html := Get(t, a.partner.Service.URL+page)
		state := fmt.Sprintf("withdrawn %t, erased %t, hidden %t", withdrawn, erased, hidden)
		states[state]++
		state = fmt.Sprintf("%s: %s, texts %q, chapters %q", c.key, state, text, chapter)
		if post.Withdrawn != withdrawn || post.Erased != (withdrawn || erased) || post.Hidden != (hidden && !post.Erased) ||
			!slices.Contains(chapter, string(post.ChapterNumber)) {
			t.Errorf("%s; readers see %+v", state, post)
		}
		visible := !withdrawn && !erased && !hidden
		if visible != slices.Contains(text, post.Content) || visible && !strings.Contains(html, post.Content) {
			t.Errorf("%s; readers see %q", state, post.Content)
		}
		if strings.Contains(html, `id="post-`+c.id+`"`) != shown[c] {
			t.Errorf("%s; on its page: %t", state, !shown[c])
		}
		var staff struct{ Reports int }
		a.staff.Get(t, "/api/admin/posts/"+c.id).WantJSON(t, http.StatusOK, &staff)
		least, most := c.reports()
		if withdrawn {
			least, most = 0, 0
		}
		if staff.Reports < least || staff.Reports > most {
			t.Errorf("%s; %d readers reported it, want %d to %d", state, staff.Reports, least, most)
		}
		if !withdrawn && !erased {
			kept[c.author] = true
			continue
		}
		gone = append(gone, c.author)
		for _, d := range c.done {
			gone = append(gone, d.words...)
		}
	}
	t.Logf("%d comments: %v", len(a.comments), states)
	for _, by := range a.authors { // decisions about them may name them
		kept[by.author] = true
	}
	return slices.DeleteFunc(gone, func(word string) bool { return kept[word] })
}

// wantNone looks for words everywhere.
func (a *anyOrder) wantNone(gone []string, database string, services []*Service, hooks string) {
	t, s := a.t, a.partner.Service
	execute(t, database, `ANALYZE`) // statistics have samples of the tables
	if held := testdb.FindWords(t, database, gone...); len(held) > 0 {
		t.Errorf("what is gone is in %v", held)
	}
	for _, service := range services {
		wantNoWord(t, "a log", gone, service.stderr.String())
	}
	wantNoWord(t, "a webhook", gone, hooks)
	for _, change := range a.partner.feed(t) {
		wantNoWord(t, "the change feed", gone, string(change.Data))
	}
	pages := []string{"/feed.atom", "/", "/api/activity"}
	for _, slug := range a.novels {
		pages = append(pages, "/novels/"+slug, "/novels/"+slug+"/feed.atom", "/novels/"+slug+"/discussion",
			"/api/novels/"+slug+"/discussion?limit=100")
	}
	for _, path := range pages {
		_, shown := Get(t, s.URL+path)
		wantNoWord(t, path, gone, shown)
	}
	dir := t.TempDir()
	MustCLI(t, database, "events", "export", filepath.Join(dir, "bundle"))
	MustCLI(t, database, "analytics", "export", "--all", "--output-dir", filepath.Join(dir, "views"))
	for _, file := range testdb.Must(filepath.Glob(filepath.Join(dir, "*", "*")))(t) {
		if content, err := os.ReadFile(file); err == nil { // not a directory
			wantNoWord(t, file, gone, string(content))
		}
	}
}

func wantNoWord(t testing.TB, where string, words []string, text string) {
	t.Helper()
	for _, word := range words {
		if at := strings.Index(text, word); at >= 0 {
			t.Errorf("%s has what is gone: %.300s", where, text[max(0, at-200):])
			return
		}
	}
}

func postgresLog(t testing.TB, s *server) (text []byte) {
	t.Helper()
	for _, log := range testdb.Must(filepath.Glob(filepath.Join(s.cluster(t), "log", "*.log")))(t) {
		text = append(text, testdb.Must(os.ReadFile(log))(t)...)
	}
	return text
}
