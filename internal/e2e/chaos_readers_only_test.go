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
	primary, standby := startPair(t)
	full := serve(t, slowly(primary.url()), "--request-timeout", "10s")
	l := newLoad(t, newPartner(t, primary.url()))
	l.aim(full)
	l.start(4)
	l.book.await(50)
	text := remarkOn(t, l.Partner, full, "first")
	l.stop()
	awaitSealed(t, primary.url())
	awaitProjections(t, primary.url(), readLog(t, primary.url()))
	testdb.Eventually(t, "everything is signed", func() bool {
		return value[bool](t, primary.url(),
			`SELECT (SELECT max(tree_size) FROM ledger_checkpoints) = (SELECT tree_size FROM ledger_state)`)
	})
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
	if page := newestOn(t, r); !strings.Contains(page, text) {
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
	l = newLoad(t, l.Partner)
	l.aim(full)
	l.start(4)
	l.book.await(50)
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
	l.aim(again)
	l.book.await(50)
	l.stop()
	remarkOn(t, l.Partner, again, "second")
	again.awaitReady(t)
}

// wantReadersOnly sends a request to each route of the description, with a key. All but those of readers are refused.
func wantReadersOnly(t *testing.T, r *Service, key string) {
	t.Helper()
	refused := 0
	for _, route := range Routes(t) {
		path := strings.NewReplacer("{", "", "}", "").Replace(route.Path)
		response := r.Send(t, Request{
			Method: route.Method, Path: path, Bearer: key, Key: Key(), ContentType: "application/json", Body: []byte("{}"),
		})
		public := route.Operation.Security != nil && len(*route.Operation.Security) == 0
		switch {
		case public && response.Status == http.StatusServiceUnavailable && path != "/readyz":
			t.Errorf("%s is for readers, and gets %d\n%s", route, response.Status, response.Body)
		case !public:
			refused++
			problem := response.WantProblem(t, http.StatusServiceUnavailable, "unavailable")
			wait := response.Header.Get("Retry-After")
			if wait != "1" || !strings.Contains(problem.Detail, "only serves readers") {
				t.Errorf("%s: Retry-After %q, %s", route, wait, problem.Detail)
			}
		}
	}
	if refused < 20 {
		t.Errorf("only %d routes need a key", refused)
	}
}

// TestSchemaOfAStandby: a standby with the schema of another version is refused, and not migrated.
func TestSchemaOfAStandby(t *testing.T) {
	t.Parallel()
	primary, standby := startPair(t)
	newest := value[int](t, primary.url(), `SELECT max(version_id) FROM goose_db_version`)
	refused := func(sentence string) {
		t.Helper()
		primary.awaitStandby(t, standby)
		wantOneSentence(t, standby.url(), "novelgate: check the standby: the standby has the schema of "+sentence)
	}
	execute(t, primary.url(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)`)
	refused("a newer version of novelgate: use that version " +
		fmt.Sprintf("(schema version 99999, %d is needed)", newest))
	execute(t, primary.url(), fmt.Sprintf(`DELETE FROM goose_db_version WHERE version_id >= %d`, newest))
	refused("an older version of novelgate: run `novelgate migrate` on the primary, or start a replica of this version " +
		"there, and wait until the standby has replayed it " +
		fmt.Sprintf("(schema version %d, %d is needed)", value[int](t, primary.url(),
			`SELECT max(version_id) FROM goose_db_version`), newest))
	if out := RunCLI(t, standby.url(), "doctor"); !strings.Contains(out.Stdout, "a standby") {
		t.Errorf("doctor: %d\n%s%s", out.Code, out.Stdout, out.Stderr)
	}
	if out := RunCLI(t, standby.url(), "migrate"); out.Code != 1 ||
		!strings.Contains(out.Stderr, "the database server is a standby: connect to the primary") {
		t.Errorf("migrate: %d\n%s%s", out.Code, out.Stdout, out.Stderr)
	}
}

// startPair starts a primary with an empty log and a standby of it.
func startPair(t *testing.T) (primary, standby *server) {
	t.Helper()
	primary = startServer(t, nil)
	if out := RunCLI(t, primary.url(), "migrate"); out.Code != 0 {
		t.Fatal(out.Stderr)
	}
	return primary, startStandby(t, primary)
}

// newestOn reads the page with the newest comment.
func newestOn(t *testing.T, r *Service) string {
	t.Helper()
	response := r.Send(t, Request{Method: http.MethodGet, Path: "/api/novels/standby/discussion?sort=newest&limit=1"})
	if response.Status != http.StatusOK {
		t.Errorf("a reader gets %d\n%s", response.Status, response.Body)
	}
	return string(response.Body)
}

// remark is the body of a comment that is written now.
func remark(key string) []byte {
	body := comment("Standby", "reader", key)
	body["content"] = remarkText(key)
	delete(body, "timestamp")
	return encode(body)
}

func remarkText(key string) string { return fmt.Sprint("This is the ", key, " comment.") }

// remarkOn imports a comment, follows its link, and returns its text.
func remarkOn(t *testing.T, p *Partner, r *Service, key string) string {
	t.Helper()
	text := remarkText(key)
	sent := p.send(t, r.URL, PostsPath, key, remark(key), false)
	if sent.status != http.StatusCreated {
		t.Fatalf("a comment is answered with %d %v\n%s", sent.status, sent.err, sent.body)
	}
	link := testdb.Must(url.Parse(sent.header.Get("Location")))(t)
	testdb.Eventually(t, "the link shows the comment", func() bool { // until it is projected, 503
		page := r.Send(t, Request{Method: http.MethodGet, Path: link.RequestURI()})
		if page.Status != http.StatusOK && page.Status != http.StatusServiceUnavailable {
			t.Fatalf("the link of the comment is answered with %d\n%s", page.Status, page.Body)
		}
		return strings.Contains(string(page.Body), text)
	})
	return text
}
