package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"novelgate/client"
	"novelgate/internal/auth"
	"novelgate/internal/testdb"
)

// TestClientSurvivesASandbox: the Go client survives all failures that a sandbox simulates, whether it waits for a slow
// answer or repeats the command, and each command is stored once. The first request of a key fails as the header says,
// and the repetition does not.
func TestClientSurvivesASandbox(t *testing.T) {
	t.Parallel()
	s := Start(t, testdb.New(t), "--sandbox")
	p := s.NewPartner(t)
	if !strings.HasPrefix(p.APIKey, "ngt_") {
		t.Errorf("key %.4s…", p.APIKey)
	}
	for failure, timeout := range map[string]time.Duration{
		"unavailable": patience, "rate_limited": patience, "lost_response": patience, "slow": 6 * time.Second,
	} {
		t.Run(failure, func(t *testing.T) {
			t.Parallel()
			title := Unique("Trial")
			c := testdb.Must(client.New(s.URL, p.APIKey, client.WithAttemptTimeout(timeout), client.WithSimulation(failure),
				client.WithHTTPClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}})))(t)
			key := Key()
			post, err := c.Posts.Create(t.Context(), key, client.Post{UUID: "u", Username: "n", Novel: title, Content: "c"})
			again := failure == "lost_response" || failure == "slow" // it was stored before
			if err != nil || post.Replayed != again || post.Mismatch {
				t.Errorf("%+v, %v", post, err)
			}
			edit, err := c.Posts.Edit(t.Context(), Key(), key, client.Edit{Content: "d"})
			if err != nil || edit.Replayed != again || !edit.Applied {
				t.Errorf("%+v, %v", edit, err)
			}
			if stored := value[int](t, s.DatabaseURL, `SELECT count(*)::int FROM events WHERE stream_type = 'post'
				AND data ->> 'threadId' = $1`, post.ThreadID); stored != 2 {
				t.Errorf("%d events, want a comment and an edit", stored)
			}
		})
	}
	send := func(failure, key string) (Response, error) {
		r := p.Request(PostsPath, key, Comment("Simulated").JSON(t))
		r.Header, r.Once, r.Closing = http.Header{"Novelgate-Simulate": {failure}}, true, true
		return s.TrySend(t, r)
	}
	for failure, wait := range map[string]string{"unavailable": "2", "rate_limited": "3"} {
		response := testdb.Must(send(failure, failure))(t)
		response.WantProblem(t, map[string]int{"unavailable": 503, "rate_limited": 429}[failure], failure)
		if got := response.Header.Get("Retry-After"); got != wait {
			t.Errorf("%s: Retry-After %q, want %s", failure, got, wait)
		}
		testdb.Must(send(failure, failure))(t).WantPost(t, 201)
	}
	if response, err := send("lost_response", "lost"); err == nil {
		t.Errorf("an answer after all: %+v", response)
	}
	testdb.Must(send("lost_response", "lost"))(t).WantReplayed(t, true, false)
	begun := time.Now()
	testdb.Must(send("slow", "slow"))(t).WantPost(t, 201)
	if took := time.Since(begun); took < 10*time.Second {
		t.Errorf("answered after %v", took)
	}
	for _, wrong := range []string{"Unavailable", "unavailable slow"} {
		testdb.Must(send(wrong, "wrong"))(t).WantInvalid(t, "Novelgate-Simulate")
	}
}

// TestARealInstallationIsNoSandbox: it refuses to simulate, so that no partner believes to have tested something; a
// forged key of a sandbox is like any other unknown key; its pages have no banner; and it cannot be wiped or served as
// a sandbox.
func TestARealInstallationIsNoSandbox(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p := s.NewPartner(t)
	for _, path := range []string{NovelsPath, PostsPath} {
		r := p.Request(path, "sim-1", Comment(Unique("Simulated")).JSON(t))
		r.Header = http.Header{"Novelgate-Simulate": {"unavailable"}}
		s.Send(t, r).WantInvalid(t, "Novelgate-Simulate")
		operation := path[strings.LastIndex(path, "/")+1:]
		p.Get(t, "/api/integrations/deliveries/sim-1?operation="+operation).WantProblem(t, 404, "not_found")
	}
	forged := &caller{Service: s, APIKey: newKey(t, auth.SandboxKey)}
	forged.Get(t, "/api/integrations/me").WantProblem(t, 401, "unauthorized")
	page := s.Send(t, Request{Path: "/novels"})
	if page.Header.Get("X-Robots-Tag") != "" || strings.Contains(string(page.Body), "sandbox") {
		t.Errorf("%v\n%s", page.Header, page.Body)
	}
	if out := s.Refused(t, "sandbox", "wipe", "--yes"); !strings.Contains(out.Stderr, "not the database of a sandbox") {
		t.Error(out.Stderr)
	}
	wantRefusedStart(t, []string{"needs an empty database of its own"}, "--database-url", s.DatabaseURL, unsafe[0],
		"--sandbox")
}

// TestSandboxIsWiped: a sandbox says what it is, and a wipe removes everything but accounts and keys. Afterwards its
// service works as on a new database, with the ledger.
func TestSandboxIsWiped(t *testing.T) {
	t.Parallel()
	database, dir := testdb.New(t), t.TempDir()
	serve := func() *Service {
		return Start(t, database, "--sandbox", "--data-dir", dir, "--public-url", "https://sandbox.example/books/")
	}
	s := serve()
	p, auditor, title := s.NewPartner(t), s.NewAuditor(t), Unique("Wiped")
	novel := p.Upsert(t, "novel-1", Fields{"novel": title}).WantNovel(t, 201)
	if want := "https://sandbox.example/books/novels/" + novel.Slug; novel.URL != want {
		t.Errorf("url %s, want %s", novel.URL, want)
	}
	post := p.Import(t, "evt-1", Comment(title)).WantPost(t, 201)
	if want := fmt.Sprintf("%s/discussion?post=%s#post-%[2]s", novel.URL, post.PostID); post.URL != want {
		t.Errorf("url of the post %s, want %s", post.URL, want)
	}
	testdb.Eventually(t, "the page shows the novel", func() bool {
		return strings.Contains(string(s.Send(t, Request{Path: "/novels"}).Body), title)
	})
	page := s.Send(t, Request{Path: "/novels"})
	for _, want := range []string{"This is a sandbox", `<meta name="robots" content="noindex">`} {
		if !strings.Contains(string(page.Body), want) {
			t.Errorf("no %q in\n%s", want, page.Body)
		}
	}
	for _, path := range []string{"/", "/docs", "/api/novels", "/feed.atom", "/nowhere"} {
		if got := s.Send(t, Request{Path: path}).Header.Get("X-Robots-Tag"); got != "noindex" {
			t.Errorf("%s: X-Robots-Tag %q", path, got)
		}
	}
	awaitSigned(t, database)

	wantRefusedStart(t, []string{"serve it with --sandbox"}, "--database-url", database, unsafe[0])
	if out := s.Refused(t, "sandbox", "wipe"); !strings.Contains(out.Stderr, "--yes") {
		t.Error(out.Stderr)
	}
	if out := s.Refused(t, "sandbox", "wipe", "--yes"); !strings.Contains(out.Stderr, "stop its services") {
		t.Error(out.Stderr)
	}
	p.Import(t, "evt-1", Comment(title)).WantPost(t, 200) // nothing was removed
	s.Stop(t)
	s.MustCLI(t, "sandbox", "wipe", "--yes")

	s = serve()
	p.Service = s
	if body := string(p.Get(t, "/api/novels").Body); strings.Contains(body, title) {
		t.Error(body)
	}
	p.Upsert(t, "novel-1", Fields{"novel": title}).WantNovel(t, 201)
	p.Import(t, "evt-1", Comment(title)).WantPost(t, 201)
	testdb.Eventually(t, "the page shows the new novel", func() bool {
		return strings.Contains(string(s.Send(t, Request{Path: "/novels"}).Body), title)
	})
	if got := s.Send(t, Request{Path: "/api/events?limit=1", Bearer: auditor.APIKey}).Status; got != 200 {
		t.Errorf("the auditor's key: %d", got)
	}
	awaitSigned(t, database)
	s.MustCLI(t, "events", "verify")
}
