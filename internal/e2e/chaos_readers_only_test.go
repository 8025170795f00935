package e2e_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"novelgate/internal/testdb"
)

// TestServeAStandby: a service on a standby gives readers what the primary's gives, refuses everything else, says so,
// and ends when the standby is promoted under load. Started again it is a full service. Without the primary, analysts
// can still export.
func TestServeAStandby(t *testing.T) {
	t.Parallel()
	primary := startServer(t, nil)
	standby := startStandby(t, primary)
	full := serve(t, slowly(primary.url()), "--request-timeout", "10s")
	l := startLoad(t, newPartner(t, primary.url()), 4, full)
	l.await(50)
	text := remark(t, l.Partner, full, "first")
	l.stop()
	awaitSigned(t, primary.url())
	awaitProjections(t, primary.url())
	primary.awaitStandby(t, standby)

	r := servePatiently(t, standby.url())
	testdb.Eventually(t, "it says that only readers are served", func() bool {
		return strings.Contains(r.stderr.String(), "is a standby: only readers are served")
	})
	for _, path := range []string{
		"/", "/novels", "/novels/standby", "/novels/standby/discussion", "/feed.atom", "/api/novels", "/api/novels/standby",
		"/api/novels/standby/discussion", "/api/activity", "/ledger/checkpoint", "/ledger/key", "/ledger/tile/0/000.p/1",
		"/ledger/tile/entries/000.p/1", "/ledger/proof?logIndex=1", "/openapi.yaml", "/healthz",
	} {
		var want, got Response
		testdb.Eventually(t, path+" is the same before and after", func() bool { // "just now" becomes "1 minute ago"
			want, got = full.Send(t, Request{Path: path}), r.Send(t, Request{Path: path})
			return string(want.Body) == string(full.Send(t, Request{Path: path}).Body)
		})
		if got.Status != http.StatusOK || string(got.Body) != string(want.Body) {
			t.Errorf("%s: %d, and the primary's service gives %d", path, got.Status, want.Status)
		}
	}
	if _, page := Get(t, r.URL+"/api/novels/standby/discussion?sort=newest&limit=1"); !strings.Contains(page, text) {
		t.Errorf("the comment is not on the page\n%s", page)
	}
	wantReadersOnly(t, r, l.APIKey)
	if status, body := Get(t, r.OpsURL+"/readyz"); status != http.StatusServiceUnavailable ||
		!strings.Contains(body, "this service serves readers only") {
		t.Errorf("/readyz: %d %s", status, body)
	}
	if !strings.Contains(r.metrics(t), `novelgate_ready{pool="commands"} 0`) {
		t.Error("the metrics say that it is ready")
	}

	// The primary is lost under load, and the standby promoted.
	var readers sync.WaitGroup
	var answers atomic.Int64
	for range 4 {
		readers.Go(func() {
			for {
				response, err := r.TrySend(t, Request{Path: "/api/novels/standby/discussion?sort=newest&limit=1"})
				if err != nil {
					return // the process has ended, as the test demands below
				}
				if response.Status != http.StatusOK {
					t.Errorf("a reader gets %d\n%s", response.Status, response.Body)
				}
				answers.Add(1)
			}
		})
	}
	answered := func() {
		t.Helper()
		before := answers.Load()
		testdb.Eventually(t, "readers are answered", func() bool { return answers.Load() > before+20 })
	}
	l = startLoad(t, l.Partner, 4, full)
	l.await(50)
	answered()
	primary.crash(t)
	answered()
	for format, want := range map[string]string{"csv": "integration_id,", "parquet": "PAR1"} {
		out := MustCLI(t, standby.url(), "analytics", "export", "--view", "integrations", "--format", format)
		if !strings.HasPrefix(out.Stdout, want) || format == "csv" && strings.Count(out.Stdout, "\n") != 1+1 {
			t.Errorf("an export of one integration as %s\n%s", format, out.Stdout)
		}
	}
	standby.promote(t)
	code, message := r.wait(t), "novelgate: serve: standby: the database server was promoted"
	if code != 1 || !strings.Contains(r.stderr.String(), message) {
		t.Errorf("after the promotion it ended with %d\n%s", code, lastLines(r.stderr.String(), 12))
	}
	readers.Wait()
	again := servePatiently(t, standby.url())
	l.target.Store(&[]*Service{again})
	l.await(50)
	l.stop()
	remark(t, l.Partner, again, "second")
	again.awaitReady(t)
}

// wantReadersOnly sends a request to each route of the description, with a key. All but those of readers are refused.
func wantReadersOnly(t *testing.T, r *Service, key string) {
	t.Helper()
	for _, route := range Routes(t) {
		request := route.attempt()
		request.Bearer = key
		response := r.Send(t, request)
		if route.security() != "" {
			problem := response.WantProblem(t, http.StatusServiceUnavailable, "unavailable")
			wait := response.Header.Get("Retry-After")
			if wait != "1" || !strings.Contains(problem.Detail, "only serves readers") {
				t.Errorf("%s: Retry-After %q, %s", route, wait, problem.Detail)
			}
		} else if response.Status == http.StatusServiceUnavailable && route.Path != "/readyz" {
			t.Errorf("%s is for readers, and gets %d\n%s", route, response.Status, response.Body)
		}
	}
}

// TestSchemaOfAStandby: a standby with the schema of another version is refused, and not migrated.
func TestSchemaOfAStandby(t *testing.T) {
	t.Parallel()
	primary := startServer(t, nil)
	standby := startStandby(t, primary)
	newest := value[int](t, primary.url(), `SELECT max(version_id) FROM goose_db_version`)
	refused := func(sentence string) {
		t.Helper()
		primary.awaitStandby(t, standby)
		wantRefusedStart(t, []string{"novelgate: check the standby: the standby has the schema of " + sentence},
			"--database-url", standby.url())
	}
	execute(t, primary.url(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)`)
	refused("a newer version of novelgate: use that version " +
		fmt.Sprintf("(schema version 99999, %d is needed)", newest))
	execute(t, primary.url(), fmt.Sprintf(`DELETE FROM goose_db_version WHERE version_id >= %d`, newest))
	refused("an older version of novelgate: run `novelgate migrate` on the primary, or start a replica of this version " +
		"there, and wait until the standby has replayed it " +
		fmt.Sprintf("(schema version %d, %d is needed)", value[int](t, primary.url(),
			`SELECT max(version_id) FROM goose_db_version`), newest))
	for command, says := range map[string]string{
		"doctor": "a standby", "migrate": "the database server is a standby: connect to the primary",
	} {
		if out := RunCLI(t, standby.url(), command); !strings.Contains(out.Stdout+out.Stderr, says) {
			t.Errorf("%s: %d\n%s%s", command, out.Code, out.Stdout, out.Stderr)
		}
	}
}

// remark imports a comment that is written now, follows its link, and returns its text.
func remark(t *testing.T, p *Partner, r *Service, key string) (text string) {
	t.Helper()
	text = fmt.Sprint("This is the ", key, " comment.")
	body := comment("Standby", "reader", key).With(Fields{"content": text})
	delete(body, "timestamp")
	sent := r.send(t, p.Request(PostsPath, key, body.JSON(t)))
	if sent.Status != http.StatusCreated {
		t.Fatalf("a comment is answered with %d %v\n%s", sent.Status, sent.err, sent.Body)
	}
	link := testdb.Must(url.Parse(sent.Header.Get("Location")))(t)
	testdb.Eventually(t, "the link shows the comment", func() bool { // until it is projected, 503
		page := r.Send(t, Request{Path: link.RequestURI()})
		if page.Status != http.StatusOK && page.Status != http.StatusServiceUnavailable {
			t.Fatalf("the link of the comment is answered with %d\n%s", page.Status, page.Body)
		}
		return strings.Contains(string(page.Body), text)
	})
	return text
}
