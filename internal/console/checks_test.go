//go:build checks

package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"novelgate/aggregates/novel"
	"novelgate/aggregates/principal"
	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/readapi/checks"
)

// TestChecks checks all pages with html-validate, and works with the console in Chromium (checks/console.mjs): look
// checks all pages with axe and saves pictures in the directory NOVELGATE_LOOK, day decides by keys, moderators are two
// at once, tasks are those of every day, and forms the same ones without scripts.
func TestChecks(t *testing.T) {
	c := checked{checks.Install(t, os.DirFS("checks"))}
	t.Run("HTML", c.html)
	t.Run("look", c.look)
	if os.Getenv("NOVELGATE_LOOK") != "" {
		t.Run("look at the queue", c.picture)
	}
	t.Run("day", c.day)
	t.Run("moderators", c.moderators)
	t.Run("tasks", func(t *testing.T) { c.tasks(t, true) })
	t.Run("forms", func(t *testing.T) { c.tasks(t, false) })
}

// checked has the tools.
type checked struct{ checks.Tools }

// browse serves a fixture, and runs a part of console.mjs with what it needs to know. It returns what that prints.
func (c checked) browse(t *testing.T, f *fixture, part string, input map[string]any) []byte {
	t.Helper()
	server := httptest.NewServer(f.handler)
	t.Cleanup(server.Close)
	input["home"] = strings.Replace(server.URL, "127.0.0.1", "localhost", 1) + "/console" // which may keep the cookie
	input["chromium"], input["pictures"] = checks.Chromium(t), os.Getenv("NOVELGATE_LOOK")
	c.Write(t, part+".json", testdb.Must(json.Marshal(input))(t))
	return c.Run(t, "node", "console.mjs", part, part+".json")
}

// hostileTexts are texts that a page must show unchanged, and within its width.
var hostileTexts = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>'`, "\u202egnp.exe \u2066", `{{.Body}} & % + ? # / \`,
	"ألف ليلة وليلة", "👩‍👩‍👧‍👦🏳️‍🌈", strings.Repeat("W", 50), "a" + strings.Repeat("\u0301", 40),
	"https://evil.example/" + strings.Repeat("x", 20),
}

// hostileWorld fills a fixture with hostile names and texts in all states, and returns a value for each variable in the
// paths of pages. A page with a variable that this does not know fails the test.
func hostileWorld(t *testing.T, f *fixture) map[string][]string {
	t.Helper()
	ctx := t.Context()
	p := f.partner(t, "Fan <b>Site</b> & "+strings.Repeat("W", 80))
	other := f.partner(t, hostileTexts[4])
	states := []novel.State{novel.Approved, novel.Pending, novel.Rejected}
	var recorded []events.Recorded
	var novels, posts []string
	for i, text := range hostileTexts {
		n := f.novel(t, []uuid.UUID{p, other}[i%2], fmt.Sprint(strings.Repeat(text+" ", 3), i), states[i%len(states)])
		novels = append(novels, n.String())
		for j, content := range []string{text, strings.Repeat(text+"\n\n", 60), strings.Repeat(text, 60)} {
			key := fmt.Sprint("key ", i, " ", j)
			recorded = append(recorded, imported(p, n, text, key, content, (i+j)%3)...)
			posts = append(posts, events.PostID(p, key).String())
		}
	}
	f.append(t, recorded...)
	author := func(text string) staff.AuthorName { return staff.AuthorName{IntegrationID: p, ExternalUUID: text} }
	for i, text := range hostileTexts[:6] {
		id := uuid.MustParse(posts[3*i])
		testdb.Must(f.staff.HidePost(ctx, id, text))(t)
		f.ada.act(t, "/console/notes", url.Values{"back": {"/comments"}, "subject": {id.String()}, "note": {text}})
	}
	testdb.Must(f.staff.RestorePost(ctx, uuid.MustParse(posts[0]), hostileTexts[0]))(t)
	testdb.Must(f.staff.BlockAuthor(ctx, author(hostileTexts[1]), hostileTexts[1]))(t)
	testdb.Must(f.staff.EraseAuthor(ctx, author(hostileTexts[5]), hostileTexts[5]))(t)
	_, _, err := f.staff.IssueKey(ctx, p, time.Hour)
	testdb.NoError(t, err)
	refuse(t, f, p, hostileTexts...)
	testdb.Exec(t, f.staff.Pool, `INSERT INTO webhooks (webhook_id, integration_id, url, secret, position, failures,
failing_since, next_attempt_at) VALUES (gen_random_uuid(), $1, 'https://x.example/' || repeat('x', 300),
convert_to(repeat('x', 24), 'UTF8'), 0, 3, now(), now())`, p)
	f.await(t)
	return map[string][]string{
		"queue": {"reported", "novels"}, "postId": posts, "novelId": novels, "integrationId": {p.String()},
		"streamType": {"post"}, "streamId": posts, "logIndex": {"7", "30", "50"}, "uuid": hostileTexts,
	}
}

// refuse stores refused deliveries of a partner.
func refuse(t *testing.T, f *fixture, partner uuid.UUID, details ...string) {
	t.Helper()
	for i, detail := range details {
		testdb.Exec(t, f.staff.Pool, `INSERT INTO refusals (integration_id, refusal_id, refused_at, request_id, operation,
idempotency_key, code, field, detail) VALUES ($1, $2, now(), 'request ' || $3, 'posts', 'key ' || $3, 'invalid_request',
'content', $4)`, partner, testdb.Must(uuid.NewV7())(t), fmt.Sprint(i), detail)
	}
}

var (
	variable = regexp.MustCompile(`\{(\w+)[^}]*\}`)
	notPages = regexp.MustCompile(`^/(counts|assets/.*|.*/proof)$`)
)

// paths returns paths below /console of all pages: of each route as many as values make different.
func paths(t *testing.T, f *fixture, values map[string][]string) (list []string) {
	t.Helper()
	testdb.NoError(t, f.router.Walk(func(route *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		template, _ := route.GetPathTemplate()
		methods, _ := route.GetMethods()
		path := strings.TrimPrefix(template, "/console")
		if !slices.Contains(methods, http.MethodGet) || notPages.MatchString(path) {
			return nil
		}
		for i := range 3 {
			list = append(list, variable.ReplaceAllStringFunc(path, func(found string) string {
				name := variable.FindStringSubmatch(found)[1]
				if len(values) > 1 && values[name] == nil {
					t.Errorf("%s: hostileWorld has no %s", path, name)
				}
				if len(values[name]) == 0 {
					return uuid.Nil.String()
				}
				return url.PathEscape(values[name][13*i%len(values[name])])
			}))
		}
		return nil
	}))
	slices.Sort(list)
	return slices.Compact(list)
}

// more are pages with filters, empty lists, and refusals.
var more = []string{
	"/comments?state=hidden", "/comments?state=reported&sort=waiting", "/comments?from=2100-01-01", "/history?actor=Ada",
	"/comments?from=yesterday", "/history?day=1999-01-01", "/comments/00000000-0000-0000-0000-000000000000",
}

// confirming is a form whose answer asks once more.
var confirming = url.Values{"back": {"/comments"}, "all": {"yes"}, "decision": {"hide"}, "reason": {"<b>"}}

func (c checked) html(t *testing.T) {
	f := newFixture(t)
	list := append(paths(t, f, hostileWorld(t, f)), more...)
	var saved []string
	save := func(page []byte) {
		saved = append(saved, fmt.Sprintf("page%d.html", len(saved)))
		c.Write(t, saved[len(saved)-1], page)
	}
	stranger := &browser{fixture: f}
	for _, who := range []*browser{f.ada, f.auditor, stranger} {
		for _, path := range list {
			w := who.do(newGet(t, "/console"+path))
			if w.Code >= http.StatusInternalServerError {
				t.Errorf("%s: %d %s", path, w.Code, f.log)
			}
			if w.Code != http.StatusSeeOther {
				save(w.Body.Bytes())
			}
		}
	}
	save(f.ada.post(t, "/console/comments", confirming).Body.Bytes())
	c.Run(t, "npx", append([]string{"--no", "html-validate"}, saved...)...)
}

func (c checked) look(t *testing.T) {
	empty := newFixture(t)
	c.browse(t, empty, "look", map[string]any{
		"keys":  map[string]string{"staff": empty.adaKey.Reveal()},
		"paths": paths(t, empty, map[string][]string{"queue": {"reported", "novels"}}),
	})
	f := newFixture(t)
	auditor := f.person(t, principal.Auditor, "<i>Otto</i>").Reveal()
	c.browse(t, f, "look", map[string]any{
		"keys":  map[string]string{"staff": f.adaKey.Reveal(), "auditor": auditor},
		"paths": append(paths(t, f, hostileWorld(t, f)), more...),
	})
}

// picture takes docs/pictures/console-queue.png.
func (c checked) picture(t *testing.T) {
	f := newFixture(t)
	p := f.partner(t, "Night Reader")
	id := f.novel(t, p, "Pride and Prejudice", novel.Approved)
	other := f.novel(t, p, "The Hobbit", novel.Approved)
	f.novel(t, p, "The Kite Runner", novel.Pending)
	var recorded []events.Recorded
	for _, c := range []struct {
		on           uuid.UUID
		author, text string
		reports      int
	}{
		{id, "mira", "Her refusal is the best scene so far. He really thought that she would say yes.", 0},
		{id, "joon88", "Why does everybody like him? He has been rude in every single chapter.", 0},
		{id, "books4less", "Read the whole novel for free at books4less, no sign-up! Message me for the link.", 3},
		{id, "tess", "Wait for the letter, then you will see.", 0},
		{other, "bilbo_fan", "Can somebody explain the riddle with the egg? I still do not get it.", 1},
		{other, "anon", "Only an idiot would enjoy this translation.", 2},
	} {
		recorded = append(recorded, imported(p, c.on, c.author, c.author, c.text, c.reports)...)
	}
	for _, r := range recorded {
		if e, ok := r.Event.(events.PostReported); ok {
			e.Report.Detail = "Advertising, third time today."
		}
	}
	f.append(t, recorded...)
	note := url.Values{"back": {"/comments"}, "subject": {testdb.AuthorID(p, "books4less").String()}}
	note.Set("note", "The same link as last week, under another name.")
	f.ada.act(t, "/console/notes", note)
	c.browse(t, f, "picture", map[string]any{
		"keys": map[string]string{"Ada": f.adaKey.Reveal()}, "item": events.PostID(p, "books4less").String(),
	})
}

// reported fills a fixture with reported comments, whose texts have their numbers, from 1.
func reported(t *testing.T, f *fixture, n int) (posts map[uuid.UUID]int) {
	t.Helper()
	posts = map[uuid.UUID]int{}
	p := f.partner(t, "Fan Site")
	var recorded []events.Recorded
	on := f.novel(t, p, "Genji", novel.Approved)
	for i := 1; i <= n; i++ {
		key := fmt.Sprint("author", i)
		recorded = append(recorded, imported(p, on, key, key, fmt.Sprintf("Number %d.", i), 1)...)
		posts[events.PostID(p, key)], posts[testdb.AuthorID(p, key)] = i, i
	}
	f.append(t, recorded...)
	return posts
}

const decidedSQL = `SELECT stream_id::text || ' ' || split_part(event_type, '.', 2) || ' ' || (metadata ->> 'actor')
FROM event_log WHERE metadata ->> 'actor' IN ('staff:Ada', 'staff:Grace') ORDER BY log_index`

// decided are the decisions in the log, in their order, such as "17 hidden staff:Ada".
func decided(t *testing.T, f *fixture, posts map[uuid.UUID]int) (list []string) {
	t.Helper()
	for _, line := range testdb.Values[string](t, f.staff.Pool, decidedSQL) {
		list = append(list, fmt.Sprint(posts[uuid.MustParse(line[:36])], line[36:]))
	}
	return list
}

// day: a moderator decides about 200 comments by keys. The log has exactly these decisions, in their order.
func (c checked) day(t *testing.T) {
	f := newFixture(t)
	posts := reported(t, f, 200)
	began := time.Now()
	out := c.browse(t, f, "day", map[string]any{"keys": map[string]string{"Ada": f.adaKey.Reveal()}})
	var said struct {
		Log     []string `json:"log"`
		Seconds float64  `json:"seconds"`
	}
	testdb.NoError(t, json.Unmarshal(out, &said))
	if diff := cmp.Diff(said.Log, decided(t, f, posts)); diff != "" || len(said.Log) < 200 {
		t.Errorf("%d decisions (-made +in the log):\n%s", len(said.Log), diff)
	}
	t.Logf("%.0f decisions a minute, %s in all", 200/said.Seconds*60, time.Since(began))
}

// moderators: of two moderators nobody decides about what the other has decided about, and nothing is left.
func (c checked) moderators(t *testing.T) {
	f := newFixture(t)
	posts := reported(t, f, 60)
	c.browse(t, f, "moderators", map[string]any{
		"keys": map[string]string{"Ada": f.adaKey.Reveal(), "Grace": f.person(t, principal.Staff, "Grace").Reveal()},
	})
	made, by := map[string]int{}, map[string]int{}
	for _, decision := range decided(t, f, posts) {
		parts := strings.Fields(decision)
		made[parts[0]]++
		by[parts[2]]++
		if made[parts[0]] > 1 {
			t.Errorf("a second decision: %s", decision)
		}
	}
	if len(made) != 60 || by["staff:Ada"] < 15 || by["staff:Grace"] < 15 {
		t.Errorf("%d decided, by %v", len(made), by)
	}
}

// tasks does everyday tasks, and looks for their events.
func (c checked) tasks(t *testing.T, scripts bool) {
	f := newFixture(t)
	fan, night := f.partner(t, "Fan Site"), f.partner(t, "Night Reader")
	genji := f.novel(t, fan, "Genji", novel.Approved)
	f.novel(t, fan, "Heike", novel.Pending)
	f.novel(t, fan, "Zebra", novel.Pending)
	for i, author := range []string{"one", "two", "three", "four", "five", "six"} {
		f.comment(t, []uuid.UUID{fan, night}[i/3], genji, author, author, "A text of "+author, 1)
	}
	f.person(t, principal.Staff, "Grace") // or nobody has this name
	grace := &staff.Staff{Pool: f.staff.Pool, Actor: "staff:Grace", Now: time.Now}
	hidden := f.comment(t, fan, genji, "seven", "seven", "Spam?", 0)
	testdb.Must(grace.HidePost(t.Context(), hidden, "it gives the end away"))(t)
	refuse(t, f, fan, "it is too long")
	f.await(t)
	did := c.browse(t, f, "tasks", map[string]any{
		"keys": map[string]string{"Ada": f.adaKey.Reveal()}, "scripts": scripts, "day": time.Now().UTC().Format("01022006"),
	})
	t.Logf("clicks: %s", did)
	var events []string
	for _, line := range decided(t, f, nil) {
		if parts := strings.Fields(line); parts[2] == "staff:Ada" {
			events = append(events, parts[1])
		}
	}
	want := strings.Fields(`approved rejected hidden hidden hidden restored blocked hidden erased key_issued rate_limit_set
		hidden restored`)
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
