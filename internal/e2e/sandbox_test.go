package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"novelgate/client"
	"novelgate/internal/apikey"
	"novelgate/internal/testdb"
)

// Sandboxed is an integration in a sandbox of its own.
type Sandboxed struct {
	Partner
	Name string // of the sandbox
}

// NewSandbox runs `integration create --sandbox`. The sandbox is deleted with the test.
func (s *Service) NewSandbox(t testing.TB) *Sandboxed {
	t.Helper()
	var created struct {
		NewIntegration
		Sandbox string `json:"sandbox"`
	}
	s.runJSON(t, &created, "integration", "create", Unique("sandboxed"), "--sandbox", "--capability", "novels",
		"--capability", "posts", "--capability", "import", "--posts-per-minute", "10000")
	t.Cleanup(func() { s.CLI(t, "sandbox", "delete", created.Sandbox) }) // the test may have deleted it
	if !strings.HasPrefix(created.APIKey, "ngt_"+created.Sandbox) {
		t.Errorf("key %.8s… of sandbox %s", created.APIKey, created.Sandbox)
	}
	return &Sandboxed{Partner{created.NewIntegration, s}, created.Sandbox}
}

// TestSandboxContentStaysInside fills a sandbox, and looks for its content wherever others look: every GET route of
// docs/openapi.yaml with every other kind of key, searches, near titles, every table and view, and the exports.
func TestSandboxContentStaysInside(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	s := Start(t, testdb.New(t))
	ada, auditor, other := s.NewStaff(t), s.NewAuditor(t), s.NewPartner(t)
	open := Unique("Open")
	other.Upsert(t, Key(), Fields{"novel": open}).WantNovel(t, 201)
	other.Import(t, Key(), Comment(open)).WantPost(t, 201)
	box, neighbour := s.NewSandbox(t), s.NewSandbox(t)

	title := Unique("Sandboxed")
	word := title[len("Sandboxed "):] // whatever shows it shows what is in the sandbox
	novel := box.Upsert(t, "novel-1", Fields{
		"novel": title, "author": word, "synopsis": word, "genres": []string{word}, "language": "en",
		"coverUrl": "https://covers.example.com/" + word,
	}).WantNovel(t, 201)
	comment := Comment(title).With(Fields{"uuid": word, "username": word, "content": word})
	post := box.Import(t, "evt-1", comment).WantPost(t, 201)
	batch := box.OpenImport(t)
	batch.Put(t, fmt.Sprintf(`{"operation":"posts","idempotencyKey":"line-1","body":{"uuid":"u","username":"n","novel":%q,"content":"Line %s."}}`+"\n",
		title, word))
	var webhook struct {
		WebhookID string `json:"webhookId"`
	}
	s.Send(t, box.Request("/api/integrations/webhooks", "", Fields{"url": "https://hooks.example.com/" + word}.JSON(t))).
		WantJSON(t, 201, &webhook)
	s.MustCLI(t, "author", "hide-posts", box.IntegrationID, word, "--reason", word, "--in-sandbox", box.Name)
	s.MustCLI(t, "author", "restore-posts", box.IntegrationID, word, "--reason", word, "--in-sandbox", box.Name)

	paths := strings.NewReplacer("{slug}", novel.Slug, "{postId}", post.PostID, "{novelId}", novel.NovelID,
		"{part}", fmt.Sprint(firstByte(t, novel.NovelID)), "{tile}", "entries/000", "{logIndex}", "0",
		"{streamType}", "novel", "{streamId}", novel.NovelID, "{integrationId}", box.IntegrationID, "{uuid}", "member",
		"{importId}", batch.ImportID, "{webhookId}", webhook.WebhookID, "{idempotencyKey}", "evt-1?operation=posts",
	)
	var walk []string
	for _, route := range Routes(t) {
		if route.Method == http.MethodGet {
			path := paths.Replace(route.Path)
			if strings.Contains(path, "{") {
				t.Errorf("%s: no value for its parameter", route)
			}
			walk = append(walk, path)
		}
	}
	walk = append(walk, "/novels?q=sandboxed", "/novels?text=sandboxed", "/api/novels?text=sandboxed",
		"/api/novels?sort=newest", "/api/admin/novels?text=sandboxed", "/api/events?limit=1000",
		"/api/admin/integrations?limit=500")

	// Its own key sees it, so the walk can find it.
	shown := func(path, key string) bool {
		return strings.Contains(string(s.Send(t, Request{Path: path, Bearer: key}).Body), word)
	}
	for _, path := range []string{
		"/", "/novels", "/novels/" + novel.Slug, "/novels/" + novel.Slug + "/discussion", "/feed.atom",
		paths.Replace("/novels/{slug}/feed.atom"), paths.Replace("/sitemaps/{part}"), "/api/novels", "/api/activity",
		"/api/posts/" + post.PostID, "/api/novels?text=sandboxed", "/api/integrations/webhooks",
		paths.Replace("/api/novels/{slug}/discussion"), paths.Replace("/api/integrations/deliveries/evt-1?operation=posts"),
		"/api/integrations/changes",
	} {
		testdb.Eventually(t, "the key of the sandbox sees "+path, func() bool { return shown(path, box.APIKey) })
		if got := s.Send(t, Request{Path: path, Bearer: box.APIKey}).Header.Get("Cache-Control"); got != "private, no-store" {
			t.Errorf("%s: Cache-Control %q: a shared cache would show it to others", path, got)
		}
	}
	for who, key := range map[string]string{
		"nobody": "", "another partner": other.APIKey, "another sandbox": neighbour.APIKey, "staff": ada.APIKey,
		"an auditor": auditor.APIKey, "a wrong key": tamper(box.APIKey),
		"a guessed key": apikey.NewSandbox(box.Name).Reveal(),
	} {
		for _, path := range walk {
			if shown(path, key) {
				t.Errorf("%s sees the sandbox at %s", who, path)
			}
		}
	}
	for _, stranger := range []*Partner{other, &neighbour.Partner} {
		var resolved struct {
			Rule       string   `json:"rule"`
			NearTitles []string `json:"nearTitles"`
		}
		resolve := stranger.Request("/api/integrations/resolve", "", Fields{"novel": title}.JSON(t))
		s.Send(t, resolve).WantJSON(t, 200, &resolved)
		if resolved.Rule != "create" || len(resolved.NearTitles) > 0 {
			t.Errorf("resolve: %+v", resolved)
		}
	}

	wantNowhere(t, s, word)
	if value[bool](t, s.DatabaseURL, `SELECT has_database_privilege('novelgate_analytics', current_database() || '_sandbox_' || $1, 'CONNECT')`,
		box.Name) {
		t.Error("analysts can connect to the sandbox")
	}
	// The title is free, in the catalogue and in the other sandbox.
	for _, stranger := range []*Partner{other, &neighbour.Partner} {
		stranger.Upsert(t, Key(), Fields{"novel": title}).WantNovel(t, 201)
	}
}

func firstByte(t *testing.T, id string) (b byte) {
	t.Helper()
	testdb.Must(fmt.Sscanf(id, "%02x", &b))(t)
	return b
}

// wantNowhere fails the test if a table or view of the main database, or an export of it, has the word.
func wantNowhere(t *testing.T, s *Service, word string) {
	t.Helper()
	relations := value[[]string](t, s.DatabaseURL, `SELECT array_agg(c.oid::regclass::text) FROM pg_class c
		WHERE relkind IN ('r', 'v', 'm', 'p') AND relnamespace::regnamespace::text NOT LIKE 'pg\_%'
		    AND relnamespace <> 'information_schema'::regnamespace`)
	if len(relations) < 30 {
		t.Errorf("%d tables and views", len(relations))
	}
	for _, relation := range relations {
		if value[bool](t, s.DatabaseURL, `SELECT EXISTS (SELECT FROM `+relation+` AS r WHERE strpos(r::text, $1) > 0)`, word) {
			t.Errorf("%s has it", relation)
		}
	}
	awaitSealed(t, s.DatabaseURL)
	dir := t.TempDir()
	s.MustCLI(t, "events", "export", filepath.Join(dir, "bundle"))
	for _, view := range []string{"novels", "posts", "authors", "integrations"} {
		s.MustCLI(t, "analytics", "export", "--view", view, "--output", filepath.Join(dir, view))
	}
	files := 0
	if err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files++
		content, err := os.ReadFile(path)
		if strings.Contains(string(content), word) {
			t.Errorf("%s has it", path)
		}
		return err
	}); err != nil || files < 8 {
		t.Errorf("%d files, %v", files, err)
	}
}

// report runs certify and returns the results of the faults, each with its reason.
func (b *Sandboxed) report(t *testing.T, certified bool) map[string]client.Fault {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.json")
	out := b.Service.CLI(t, "certify", "--url", b.Service.URL, "--key", b.APIKey, "--report", file)
	if (out.Code == 0) != certified || !strings.HasPrefix(out.Stdout, "FAULT ") {
		t.Errorf("exit code %d\n%s%s", out.Code, out.Stdout, out.Stderr)
	}
	var report client.Certification
	content, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(content, &report)
	}
	if err != nil || report.Certified != certified || len(report.Faults) != 4 {
		t.Fatalf("report %+v, %v", report, err)
	}
	b.Inquire(t, "/api/integrations/certification").WantJSON(t, 200, &client.Certification{})
	found := map[string]client.Fault{}
	for _, f := range report.Faults {
		found[f.Fault] = f
	}
	return found
}

var faults = []string{"unavailable", "rate_limited", "lost_response", "slow"}

// TestClientIsCertified: the Go client survives all faults, whether it waits for a slow answer or repeats the command,
// and each command is stored once.
func TestClientIsCertified(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	for name, timeout := range map[string]time.Duration{"patient": patience, "hasty": 6 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			box, title := s.NewSandbox(t), Unique("Certified")
			if got := box.report(t, false)["slow"]; got.Result != "not_tried" || got.IdempotencyKey != nil {
				t.Errorf("before: %+v", got)
			}
			for _, fault := range faults {
				t.Run(fault, func(t *testing.T) { // one after the other: no answer waits for a delayed one
					c := testdb.Must(client.New(s.URL, box.APIKey, client.WithAttemptTimeout(timeout), client.WithSimulation(fault),
						client.WithHTTPClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}})))(t)
					novel, err := c.Novels.Upsert(t.Context(), "novel-"+fault, client.Novel{Title: title + fault})
					if err != nil || novel.Mismatch {
						t.Errorf("%+v, %v", novel, err)
					}
					post, err := c.Posts.Create(t.Context(), "evt-"+fault, client.Post{
						UUID: "u", Username: "n", Novel: title + fault, Content: "About " + fault,
					})
					again := fault == "lost_response" || fault == "slow" && name == "hasty" // it was stored before
					if err != nil || post.Replayed != again || post.Mismatch {
						t.Errorf("%+v, %v", post, err)
					}
					var read struct{ Items []any }
					testdb.Eventually(t, "the comment is shown", func() bool {
						box.Inquire(t, "/api/novels/"+novel.Slug+"/discussion").WantJSON(t, 200, &read)
						return len(read.Items) > 0
					})
					if len(read.Items) != 1 {
						t.Errorf("%d comments", len(read.Items))
					}
				})
			}
			for fault, found := range box.report(t, true) {
				if found.Result != "survived" || *found.IdempotencyKey != "evt-"+fault || *found.Operation != "posts" {
					t.Errorf("%+v", found)
				}
			}
		})
	}
}

// TestBrokenClientIsNotCertified: a client that does not repeat as it should is told what it did wrong.
func TestBrokenClientIsNotCertified(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	box, title := s.NewSandbox(t), Unique("Broken")
	box.Upsert(t, Key(), Fields{"novel": title}).WantNovel(t, 201)
	once := Attach(s.URL) // net/http repeats a request by itself if its connection was used before
	once.http.Transport = &http.Transport{DisableKeepAlives: true}
	send := func(fault, key string) (Response, error) {
		r := box.Request(PostsPath, key, Comment(title).With(Fields{"content": "About " + fault}).JSON(t))
		r.Header = http.Header{"Novelgate-Simulate": {fault}}
		return once.TrySend(t, r)
	}
	first := func(fault string, status int, code, retryAfter string) {
		t.Helper()
		response := testdb.Must(send(fault, fault))(t)
		response.WantProblem(t, status, code)
		if got := response.Header.Get("Retry-After"); got != retryAfter {
			t.Errorf("%s: Retry-After %q, want %s", fault, got, retryAfter)
		}
		if fault == "rate_limited" && response.Header.Get("RateLimit") != `"posts";r=0;t=3` {
			t.Errorf("RateLimit %q", response.Header.Get("RateLimit"))
		}
	}
	first("rate_limited", 429, "rate_limited", "3")
	if response, err := send("rate_limited", "rate_limited"); err != nil || response.Status != 201 { // at once
		t.Errorf("%+v, %v", response, err)
	}
	first("unavailable", 503, "unavailable", "2") // and given up
	if response, err := send("lost_response", "lost_response"); err == nil {
		t.Errorf("an answer after all: %+v", response)
	}
	r := box.Request(PostsPath, "lost-2", Comment(title).With(Fields{"content": "About lost_response"}).JSON(t))
	if response := s.Send(t, r); response.Status != 201 { // stored twice, as the report says
		t.Errorf("%+v", response)
	}
	hasty := Attach(s.URL)
	hasty.http.Timeout = 6 * time.Second
	r = box.Request(PostsPath, "slow", Comment(title).With(Fields{"content": "About slow"}).JSON(t))
	r.Header = http.Header{"Novelgate-Simulate": {"slow"}}
	if response, err := hasty.TrySend(t, r); err == nil { // and given up
		t.Errorf("an answer at once: %+v", response)
	}
	testdb.Eventually(t, "the slow answer is noticed to be given up", func() bool {
		return strings.Contains(box.report(t, false)["slow"].Reason, "was not sent again")
	})
	found := map[string]string{}
	for fault, f := range box.report(t, false) {
		found[fault] = f.Result + " " + *f.IdempotencyKey + ": " + f.Reason
	}
	early := regexp.MustCompile(`after (0s|\d00ms|[12][.\d]*s);`)
	found["rate_limited"] = early.ReplaceAllString(found["rate_limited"], "after …;")
	if diff := cmp.Diff(map[string]string{
		"unavailable":   "not_survived unavailable: The command was not sent again with the same key.",
		"rate_limited":  "not_survived rate_limited: The command was sent again after …; Retry-After was 3s.",
		"lost_response": `not_survived lost_response: The same body was sent with another key, "lost-2": the command may be stored twice.`,
		"slow":          "not_survived slow: The command was not sent again with the same key.",
	}, found); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestCertifyNeedsASandbox: the key of a real integration is refused, instead of a table of faults that were not tried.
func TestCertifyNeedsASandbox(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	out := p.Service.CLI(t, "certify", "--url", p.Service.URL, "--key", p.APIKey)
	if out.Code != 80 || !strings.Contains(out.Stderr, "is not of a sandbox") || out.Stdout != "" {
		t.Errorf("%+v", out)
	}
}

// TestSimulationNeedsASandbox: a partner must not believe that a real integration has been tested.
func TestSimulationNeedsASandbox(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	partner, box := s.NewPartner(t), s.NewSandbox(t)
	for _, path := range []string{NovelsPath, PostsPath} {
		body := Comment(Unique("Simulated")).JSON(t)
		for _, p := range []*Partner{partner, &box.Partner} {
			wrong := []string{"unavailable"}
			if p == &box.Partner {
				wrong = []string{"Unavailable", "unavailable slow"}
			}
			for _, fault := range wrong {
				r := p.Request(path, "sim-1", body)
				r.Header = http.Header{"Novelgate-Simulate": {fault}}
				s.Send(t, r).WantInvalid(t, "Novelgate-Simulate")
			}
			operation := path[strings.LastIndex(path, "/")+1:]
			p.Inquire(t, "/api/integrations/deliveries/sim-1?operation="+operation).WantProblem(t, 404, "not_found")
		}
	}
}

// TestSandboxIsWiped: a wipe removes what is in a sandbox, but not its keys, and nothing of another sandbox. It takes
// effect in a running service, which has one sandbox open at a time.
func TestSandboxIsWiped(t *testing.T) {
	t.Parallel()
	s := Start(t, testdb.New(t), "--sandboxes", "1")
	box, other, title := s.NewSandbox(t), s.NewSandbox(t), Unique("Wiped")
	further := s.IssueKey(t, box.IntegrationID, "--in-sandbox", box.Name)
	named := func(p *Sandboxed) []string {
		var list struct {
			Items []struct{ Novel string }
		}
		testdb.Eventually(t, "the sandbox answers", func() bool {
			response := p.Inquire(t, "/api/novels")
			if response.Status == http.StatusOK {
				response.WantJSON(t, 200, &list)
			}
			return response.Status == http.StatusOK
		})
		titles := []string{}
		for _, item := range list.Items {
			titles = append(titles, item.Novel)
		}
		return titles
	}
	for range 2 { // in turn, so that each is closed and opened again
		for _, p := range []*Sandboxed{box, other} {
			testdb.Eventually(t, "the sandbox is opened", func() bool {
				return p.Upsert(t, "novel-1", Fields{"novel": title}).Status < 300
			})
			testdb.Eventually(t, "its novel is shown", func() bool { return len(named(p)) == 1 })
		}
	}
	s.MustCLI(t, "sandbox", "wipe", box.Name)
	testdb.Eventually(t, "the novel is gone", func() bool { return len(named(box)) == 0 })
	testdb.Eventually(t, "the title is free", func() bool {
		return box.Upsert(t, "novel-1", Fields{"novel": title}).Status == http.StatusCreated
	})
	box.APIKey = further.APIKey
	testdb.Eventually(t, "the other key sees the new novel", func() bool { return len(named(box)) == 1 })
	if diff := cmp.Diff([]string{title}, named(other)); diff != "" {
		t.Errorf("the other sandbox (-want +got)\n%s", diff)
	}
	list := s.MustCLI(t, "sandbox", "list").Stdout
	if !strings.Contains(list, box.Name) || !strings.Contains(list, box.IntegrationID) {
		t.Errorf("sandbox list\n%s", list)
	}
	s.MustCLI(t, "sandbox", "delete", box.Name)
	testdb.Eventually(t, "the key is refused", func() bool { return box.Inquire(t, "/api/integrations/me").Status == 401 })
	s.Refused(t, "sandbox", "wipe", box.Name)
	s.Refused(t, "sandbox", "delete", "x")
	s.Refused(t, "integration", "create", "Nested", "--sandbox", "--in-sandbox", other.Name)
	s.Refused(t, "serve", "--in-sandbox", other.Name)
	main := testdb.Must(url.Parse(s.DatabaseURL))(t)
	main.Path += "_sandbox_" + other.Name
	if refused := RunCLI(t, main.String(), "serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0",
		"--allow-unsafe-durability"); refused.Code != 1 || !strings.Contains(refused.Stderr, "sandbox") {
		t.Errorf("serve on the database of a sandbox: %d\n%s", refused.Code, refused.Stderr)
	}
}
