package e2e_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"novelgate/internal/auth"
	"novelgate/internal/testdb"
)

// refusal is the status and code of an error; zero: the request is not refused for its key.
type refusal struct {
	status int
	code   string
}

var (
	admitted     = refusal{}
	unauthorized = refusal{http.StatusUnauthorized, "unauthorized"}
	forbidden    = refusal{http.StatusForbidden, "forbidden"}
	disabled     = refusal{http.StatusForbidden, "capability_disabled"}
)

// admissions are the answers to valid keys of each kind, by the security of a route in docs/openapi.yaml.
var admissions = map[string]struct{ partner, disabled, staff, auditor refusal }{
	"":                    {admitted, admitted, admitted, admitted},
	"apiKey":              {admitted, disabled, unauthorized, unauthorized},
	"staffKey":            {forbidden, forbidden, admitted, forbidden},
	"auditorKey staffKey": {forbidden, forbidden, admitted, admitted},
}

// attempt returns a request to a route, with a new id for each parameter of the path.
func (r Route) attempt() Request {
	request := Request{
		Method: r.Method, Path: regexp.MustCompile(`{\w+}`).ReplaceAllString(r.Path, uuid.NewString()), Key: Key(),
	}
	if r.Operation.RequestBody != nil {
		request.Body = []byte("{}")
		for request.ContentType = range r.Operation.RequestBody.Value.Content {
			break
		}
	}
	return request
}

// TestEveryRoute calls every documented route with every kind of key: the service admits exactly those of the
// description. Package auth tests which keys are valid, and that a refused request has no effect. Metrics are labelled
// with documented paths only.
func TestEveryRoute(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	ada, auditor, partner, off := s.NewStaff(t), s.NewAuditor(t), s.NewImporter(t), s.NewImporter(t)
	s.MustCLI(t, "integration", "disable", off.IntegrationID)
	invalid := []string{"", newKey(t, auth.PartnerKey), newKey(t, auth.StaffKey)}
	documented := map[string]bool{}
	for _, route := range Routes(t) {
		documented[route.Path] = true
		security := route.security()
		want, known := admissions[security]
		if !known {
			t.Fatalf("%s has the security %q", route, security)
		}
		wanted := map[string]refusal{
			partner.APIKey: want.partner, off.APIKey: want.disabled, ada.APIKey: want.staff, auditor.APIKey: want.auditor,
		}
		for _, key := range invalid {
			if wanted[key] = unauthorized; security == "" {
				wanted[key] = admitted
			}
		}
		for key, want := range wanted {
			request := route.attempt()
			request.Bearer = key
			response := s.Send(t, request)
			if response.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: browsers may guess the type of a %d", route, response.Status)
			}
			got := admitted
			if response.Status == http.StatusUnauthorized || response.Status == http.StatusForbidden {
				got = refusal{response.Status, response.WantProblem(t, response.Status, want.code).Code}
			}
			if got != want {
				t.Errorf("%s with the key %.8s…: %+v, want %+v\n%s", route, key, got, want, response.Body)
			}
		}
	}
	for _, url := range []string{
		s.URL + "/nowhere", s.URL + "/novels", s.URL + "/docs", s.OpsURL + "/metrics", s.OpsURL + "/nowhere",
	} {
		response := testdb.Must(Attach(url).do(t.Context(), Request{Closing: true}))(t)
		if response.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: browsers may guess the type of a %d", url, response.Status)
		}
	}
	_, metrics := Get(t, s.OpsURL+"/metrics")
	seen := regexp.MustCompile(`(?m)^novelgate_http_request[^\n]*\broute="([^"]*)"`).FindAllStringSubmatch(metrics, -1)
	for _, label := range seen {
		if !documented[label[1]] && label[1] != "unmatched" {
			t.Errorf("route %q is no path of docs/openapi.yaml", label[1])
		}
	}
	if len(seen) < len(documented) {
		t.Errorf("%d series for %d paths", len(seen), len(documented))
	}
}

// TestEveryCommandOfStaffNeedsAKey: each POST of staff requires a valid Idempotency-Key.
func TestEveryCommandOfStaffNeedsAKey(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	ada, posts := s.NewStaff(t), 0
	for _, route := range Routes(t) {
		if route.Method != http.MethodPost || route.security() != "staffKey" {
			continue
		}
		posts++
		if !route.NeedsKey() {
			t.Errorf("docs/openapi.yaml does not require an Idempotency-Key of %s", route)
		}
		request := route.attempt()
		request.Bearer, request.Key = ada.APIKey, ""
		s.Send(t, request).WantProblem(t, 400, "invalid_idempotency_key")
	}
	if posts == 0 {
		t.Error("no POST for staff is documented")
	}
}

// TestRepeatedCommandOfStaff: a repetition with the key changes nothing and reports the current state, also with
// another key of the same person; of concurrent requests one is carried out. Package staff tests all other commands.
func TestRepeatedCommandOfStaff(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	ada, p := s.NewStaff(t), s.NewPartner(t, Fields{"review": true})
	novel := p.Upsert(t, Key(), Fields{"novel": Unique("Repeated")}).WantNovel(t, 201)
	again := &Person{caller: caller{Service: s}} // another key of the same person
	s.runJSON(t, again, "staff", "create", ada.Name)
	post := s.NewPartner(t).Import(t, Key(), Comment(Unique("Repeated"))).WantPost(t, 201)
	for _, step := range []struct{ path, verb, key, now string }{
		{"novels/" + novel.NovelID, "approve", "first", `"state":"approved"`},
		{"novels/" + novel.NovelID, "reject", "second", `"state":"rejected"`},
		{"novels/" + novel.NovelID, "approve", "third", `"state":"approved"`},
		{"novels/" + novel.NovelID, "publish", "fourth", `"state":"published"`},
		{"posts/" + post.PostID, "hide", "first", `"state":"hidden"`},
		{"posts/" + post.PostID, "restore", "first", `"state":"visible"`},
	} {
		first, path := 0, "/api/admin/"+step.path+"/"+step.verb
		for _, answer := range together(6, func(i int) Response {
			return []*Person{ada, again}[i%2].Post(t, path, step.key, Fields{"reason": "test"})
		}) {
			if answer.Header.Get("Idempotent-Replayed") == "" {
				first++
			}
			if answer.Status != http.StatusOK || !strings.Contains(string(answer.Body), step.now) {
				t.Errorf("%s: %d %s", path, answer.Status, answer.Body)
			}
		}
		if first != 1 {
			t.Errorf("%s: %d answers are not replays, want 1", path, first)
		}
	}
	var now struct{ State string }
	late := ada.Post(t, "/api/admin/novels/"+novel.NovelID+"/approve", "first", Fields{"reason": "test"})
	late.WantReplayed(t, true, false)
	if late.WantJSON(t, 200, &now); now.State != "published" {
		t.Errorf("the repetition says %s, want published", now.State)
	}
	// A key is scoped to the path and to the person.
	other := s.NewStaff(t).Post(t, "/api/admin/posts/"+post.PostID+"/hide", "first", Fields{"reason": "test"})
	other.WantReplayed(t, false, false)
}

// TestUnknownPathsAndMethods: everything else is 404, and 405 with the allowed methods.
func TestUnknownPathsAndMethods(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p := s.NewPartner(t)
	for _, path := range []string{
		"/api", "/api/integrations/", "/api/integrations/novels/", "/api/integrations/Novels",
		"/api/integrations/novels%20", "/favicon.ico", "/metrics", "/debug/pprof/",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			request := p.Request(path, Key(), []byte("{}"))
			request.Method = method
			if s.Send(t, request).WantProblem(t, 404, "not_found").Retryable {
				t.Errorf("%s %s is called retryable", method, path)
			}
		}
	}
	for path, allowed := range map[string]string{NovelsPath: "POST", PostsPath: "POST", "/healthz": "GET"} {
		for _, method := range []string{http.MethodPut, http.MethodDelete, "BREW"} {
			response := s.Send(t, Request{Method: method, Path: path})
			response.WantProblem(t, 405, "method_not_allowed")
			if allow := strings.Split(response.Header.Get("Allow"), ", "); !slices.Contains(allow, allowed) {
				t.Errorf("%s %s: Allow %q, want %s", method, path, allow, allowed)
			}
		}
	}
}

// TestNoRouteHasAnotherSpelling: no path leads to a route if another byte takes the place of a slash, or a letter is
// encoded, so that the rules of a proxy for paths hold.
func TestNoRouteHasAnotherSpelling(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	ada := s.NewStaff(t)
	routes := map[string]string{
		"/metrics": s.OpsURL, "/healthz": s.OpsURL, "/readyz": s.OpsURL, "/debug/pprof/heap": s.OpsURL,
	}
	for _, route := range Routes(t) {
		routes[route.attempt().Path] = s.URL
	}
	delete(routes, "/")
	for path, address := range routes {
		first, rest, _ := strings.Cut(path[1:], "/")
		for _, odd := range []string{
			"//" + path[1:], "/./" + path[1:], "/" + first + "//" + rest, "/" + first + "/./" + rest,
			"/" + first + "%2f" + rest, "/" + first + "%5c" + rest,
			fmt.Sprintf("/%%%x%s", path[1:2], path[min(2, len(path)):]),
		} {
			response, err := Attach(address).do(t.Context(), Request{Path: odd, Bearer: ada.APIKey, Closing: true})
			if err != nil {
				t.Fatal(err)
			}
			if response.Status != http.StatusNotFound {
				t.Errorf("%s: %d %.200s", odd, response.Status, response.Body)
			}
		}
	}
}

// together calls send n times concurrently and returns all answers.
func together(n int, send func(i int) Response) []Response {
	answers := make([]Response, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { answers[i] = send(i) })
	}
	all.Wait()
	return answers
}
