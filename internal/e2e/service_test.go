package e2e_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"novelgate/internal/testdb"
)

func TestUnknownTitleCreatesTheNovel(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	title := Unique("Created")
	response := p.Upsert(t, Key(), Fields{
		"novel": title, "author": "Ida Verne", "synopsis": "A boy finds a watch.\nIt runs backwards.",
		"coverUrl": "https://cdn.example.com/1.jpg",
		"genres":   []string{"Fantasy", "Mystery"}, "language": "en", "readingStatus": "ongoing",
	})
	response.WantReplayed(t, false, false)
	novel := response.WantNovel(t, 201)
	if !novel.Created || novel.Updated || novel.Canonical {
		t.Errorf("answer %+v, want created alone", novel)
	}
	want := StoredNovel{
		NovelID: novel.NovelID, Slug: novel.Slug,
		Novel: title, Author: "Ida Verne", Synopsis: "A boy finds a watch.\nIt runs backwards.",
		CoverURL: "https://cdn.example.com/1.jpg",
		Genres:   []string{"Fantasy", "Mystery"}, Language: "en", ReadingStatus: "ongoing", Owner: p.IntegrationID,
		State: "approved",
	}
	if diff := cmp.Diff(want, p.Service.Novel(t, title)); diff != "" {
		t.Errorf("novel show (-want +got)\n%s", diff)
	}
}

func TestStoredPostTellsWhereItBelongs(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	title := Unique("Belongs")
	novel := p.Upsert(t, Key(), Fields{"novel": title}).WantNovel(t, 201)
	before := time.Now().Truncate(time.Microsecond)
	parent := p.Import(t, "parent", Comment(title)).WantPost(t, 201)
	after := time.Now()
	content := "  First line\r\n\tsecond line \u202eleft\u202c 🐉 \n"
	reply := p.Import(t, "reply", Comment(title).With(Fields{
		"parent_uuid": "parent", "content": content, "chapterNumber": json.Number("0.30000000000000004"),
		"timestamp": "1969-07-20T15:17:40.123456-05:00",
	})).WantPost(t, 201)

	var thread, novelID, integration, above, text, chapter string
	var written time.Time
	p.Service.Projected(t, []any{&thread, &novelID, &integration, &above, &text, &chapter, &written},
		`SELECT thread_id::text, novel_id::text, integration_id::text, parent_post_id::text, content, chapter_number::text,
		   written_at FROM analytics.posts WHERE post_id = $1`, reply.PostID)
	for name, pair := range map[string][2]string{
		"thread":      {thread, reply.ThreadID},
		"novel":       {novelID, novel.NovelID},
		"integration": {integration, p.IntegrationID},
		"parent":      {above, parent.PostID},
		"content":     {text, content}, // kept as it came, white space and all
		"chapter":     {chapter, "0.30000000000000004"},
		"time":        {written.UTC().Format(time.RFC3339Nano), "1969-07-20T20:17:40.123456Z"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s %q, want %q", name, pair[0], pair[1])
		}
	}
	var none bool
	p.Service.Projected(t, []any{&none, &written},
		"SELECT chapter_number IS NULL, written_at FROM analytics.posts WHERE post_id = $1", parent.PostID)
	// Both processes read one clock; a second covers a service that keeps milliseconds or seconds.
	if !none || written.Before(before.Add(-time.Second)) || written.After(after.Add(time.Second)) {
		t.Errorf("no chapter: %v; written at %v, want between %v and %v", none, written, before, after)
	}
}

func TestUnknownPaths(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p := s.NewPartner(t)
	for _, path := range []string{
		"/api", "/api/integrations", "/api/integrations/", "/api/integrations/novel", "/api/integrations/novels/",
		"/api/integrations/posts/1",
		"/API/integrations/novels", "/api/integrations/Novels", "/api/integrations/novels%20", "/favicon.ico", "/.env",
		"/index.php",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			request := p.Request(path, Key(), []byte("{}"))
			request.Method = method
			if s.Send(t, request).WantProblem(t, 404, "not_found").Retryable {
				t.Errorf("%s %s is called retryable", method, path)
			}
		}
	}
}

func TestMethodsThatAPathDoesNotKnow(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	for _, path := range []string{NovelsPath, PostsPath} {
		for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodPatch, http.MethodDelete, "BREW"} {
			response := s.Send(t, Request{Method: method, Path: path})
			response.WantProblem(t, 405, "method_not_allowed")
			if allow := response.Header.Get("Allow"); !strings.Contains(allow, http.MethodPost) ||
				strings.Contains(allow, method) {
				t.Errorf("%s %s: Allow %q, want POST and not the method", method, path, allow)
			}
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/openapi.yaml"} {
		response := s.Send(t, Request{Method: http.MethodPost, Path: path})
		response.WantProblem(t, 405, "method_not_allowed")
		if allow := response.Header.Get("Allow"); !strings.Contains(allow, http.MethodGet) {
			t.Errorf("%s: Allow %q, want GET", path, allow)
		}
	}
}

func TestHealthOnBothListeners(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	if response := s.Send(t, Request{Path: "/healthz"}); response.Status != http.StatusOK {
		t.Errorf("/healthz is %d, want 200", response.Status)
	}
	if status, _ := Get(t, s.OpsURL+"/healthz"); status != http.StatusOK {
		t.Errorf("/healthz on the operations listener is %d, want 200", status)
	}
	s.awaitReady(t)
	testdb.Eventually(t, "/readyz is 200", func() bool {
		return s.Send(t, Request{Path: "/readyz"}).Status == http.StatusOK
	})
}

func TestMetricsAndProfilesStayOnTheOperationsListener(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	status, body := Get(t, s.OpsURL+"/metrics")
	if status != http.StatusOK || !strings.Contains(body, "go_goroutines") {
		t.Errorf("/metrics is %d, want 200 with metrics of the Go runtime\n%.500s", status, body)
	}
	if status, _ := Get(t, s.OpsURL+"/debug/pprof/"); status != http.StatusOK {
		t.Errorf("/debug/pprof/ is %d, want 200", status)
	}
	for _, path := range []string{"/metrics", "/debug/pprof/"} {
		s.Send(t, Request{Path: path}).WantProblem(t, 404, "not_found")
	}
}

// TestRouteLabelsAreDocumentedPaths reads the labels after requests to every route, and to one with a key that has
// slashes.
func TestRouteLabelsAreDocumentedPaths(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	documented := map[string]bool{}
	for _, route := range Routes(t) {
		documented[route.Path] = true
		slashed := "x%2F"
		if strings.HasPrefix(route.Path, "/novels/") || strings.HasPrefix(route.Path, "/sitemaps/") {
			slashed = "x-" // such an address is no page
		}
		request := Request{
			Method: route.Method, Path: strings.NewReplacer("{", slashed, "}", "").Replace(route.Path),
		}
		request.Bearer = "none"
		if response := s.Send(t, request); response.Status == http.StatusOK && routeClasses[route.String()].class != forAll {
			t.Errorf("%s is 200 without a key", route)
		}
	}
	_, metrics := Get(t, s.OpsURL+"/metrics")
	seen := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^novelgate_http_request[^\n]*\broute="([^"]*)"`).FindAllStringSubmatch(
		metrics, -1) {
		seen[found[1]] = true
	}
	for route := range seen {
		if !documented[route] && route != "unmatched" {
			t.Errorf("route %q is no path of docs/openapi.yaml", route)
		}
	}
	if delivery := "/api/integrations/deliveries/{idempotencyKey}"; !seen[delivery] {
		t.Errorf("no metric of %s, only of %v", delivery, seen)
	}
}

// TestCommentsUnderReview: the refusal says what the comment waits for; the same command succeeds after the approval.
func TestCommentsUnderReview(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p, title := s.NewPartner(t, Fields{"review": true}), Unique("Reviewed")
	comment := func(detail string) {
		t.Helper()
		got := p.Import(t, "c", Comment(title)).WantProblem(t, 404, "novel_not_found")
		if !strings.Contains(got.Detail, detail) {
			t.Errorf("detail %q, want %q", got.Detail, detail)
		}
	}
	comment("an integration under review creates none")
	p.Upsert(t, "n", Fields{"novel": title}).WantNovel(t, 201)
	comment("waits for approval")
	s.Moderate(t, "reject", title)
	comment("this integration cannot create it")
	s.Moderate(t, "approve", title)
	p.Import(t, "c", Comment(title)).WantPost(t, 201)
}
