package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"novelgate/internal/testdb"
)

// everything is a novel with every optional field.
func everything(title string) Fields {
	return Fields{
		"novel": title, "author": "Ida Verne", "synopsis": "A boy finds a watch.\nIt runs backwards.",
		"coverUrl": "https://cdn.example.com/1.jpg",
		"genres":   []string{"Fantasy", "Mystery"}, "language": "en", "readingStatus": "ongoing",
	}
}

// stored is what everything looks like in `novel show`.
func stored(title, owner string) StoredNovel {
	return StoredNovel{
		Novel: title, Author: "Ida Verne", Synopsis: "A boy finds a watch.\nIt runs backwards.",
		CoverURL: "https://cdn.example.com/1.jpg",
		Genres:   []string{"Fantasy", "Mystery"}, Language: "en", ReadingStatus: "ongoing", Owner: owner, State: "approved",
	}
}

func wantStored(t *testing.T, s *Service, want StoredNovel) {
	t.Helper()
	ignore := cmpopts.IgnoreFields(StoredNovel{}, "NovelID", "Slug")
	if diff := cmp.Diff(want, s.Novel(t, want.Novel), ignore, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("novel show (-want +got)\n%s", diff)
	}
}

func TestUnknownTitleCreatesTheNovel(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	title := Unique("Created")
	response := p.Upsert(t, Key(), everything(title))
	response.WantReplayed(t, false, false)
	novel := response.WantNovel(t, 201)
	if !novel.Created || novel.Updated || novel.Canonical {
		t.Errorf("answer %+v, want created alone", novel)
	}
	wantStored(t, p.Service, stored(title, p.IntegrationID))
	if shown := p.Service.Novel(t, title); shown.NovelID != novel.NovelID || shown.Slug != novel.Slug {
		t.Errorf("novel show says %s %s, the answer said %s %s", shown.NovelID, shown.Slug, novel.NovelID, novel.Slug)
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

// nasty returns what breaks naive text handling. Each is repeated until the body is almost full.
func nasty() map[string]string {
	return map[string]string{
		"combining marks":         "\u0301\u0323\u0489",
		"marks on one letter":     "z\u0351\u036b\u0343\u036a\u0302",
		"right-to-left override":  "\u202eabc\u202c\u2066x\u2069",
		"joined emoji":            "👩\u200d👩\u200d👧\u200d👦🏳\ufe0f\u200d🌈",
		"noncharacters":           "\ufffe\uffff\U0001fffe\U0010ffff",
		"controls":                "\x01\x02\x08\x0b\x0c\x1b[31m\x7f\u0085\u009f",
		"line ends":               "x\r\n\r\u2028\u2029\n",
		"expands when decomposed": "\ufdfa\u0390\u1e9b\u0323",
		"quotes and backslashes":  `'"\` + "`" + `$$;--%s%n{{.}}${x}<`,
	}
}

func TestHostileUnicodeIsStoredAsItCame(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	title := Unique("Hostile")
	for name, unit := range nasty() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fields := Comment(title).With(Fields{"content": "x"})
			size := len(fields.With(Fields{"content": unit}).JSON(t)) - len(fields.JSON(t)) + 1
			repeat := min((maxBody-len(fields.JSON(t)))/size, 20_000/len([]rune(unit))-1)
			content := "x" + strings.Repeat(unit, repeat)
			post := p.Import(t, Key(), fields.With(Fields{"content": content})).WantPost(t, 201)
			var stored string
			p.Service.Projected(t, []any{&stored}, "SELECT content FROM analytics.posts WHERE post_id = $1", post.PostID)
			if stored != content {
				t.Errorf("stored %.60q…, want %.60q…", stored, content)
			}
		})
	}
}

func TestPublicURL(t *testing.T) {
	t.Parallel()
	const public = "https://example.org:8443/catalogue"
	s := Start(t, testdb.New(t), "--public-url", public+"/")
	p := s.NewPartner(t)
	novel := p.Upsert(t, Key(), Fields{"novel": "Public"}).WantNovel(t, 201)
	if want := public + "/novels/" + novel.Slug; novel.URL != want {
		t.Errorf("url %s, want %s", novel.URL, want)
	}
	wantAddress(t, public, novel.Slug, p.Import(t, Key(), Comment("Public")).WantPost(t, 201))
}

func wantAddress(t *testing.T, public, slug string, post Post) {
	t.Helper()
	if want := fmt.Sprintf("%s/novels/%s/discussion?post=%s#post-%s", public, slug, post.PostID,
		post.PostID); post.URL != want {
		t.Errorf("url of the post %s, want %s", post.URL, want)
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
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
				request := p.Request(path, Key(), []byte("{}"))
				request.Method = method
				problem := s.Send(t, request).WantProblem(t, 404, "not_found")
				if problem.Retryable {
					t.Error("a wrong path is called retryable")
				}
			}
		})
	}
}

func TestMethodsThatAPathDoesNotKnow(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	for _, path := range []string{NovelsPath, PostsPath} {
		for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodPatch, http.MethodDelete, "BREW"} {
			t.Run(method+" "+path, func(t *testing.T) {
				t.Parallel()
				response := s.Send(t, Request{Method: method, Path: path})
				response.WantProblem(t, 405, "method_not_allowed")
				if allow := response.Header.Get("Allow"); !strings.Contains(allow, http.MethodPost) ||
					strings.Contains(allow, method) {
					t.Errorf("Allow %q, want POST and not %s", allow, method)
				}
			})
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
