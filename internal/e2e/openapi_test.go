package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"novelgate/docs"
	"novelgate/events"
	problems "novelgate/internal/problem"
	"novelgate/internal/testdb"
)

func TestDescriptionIsValid(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	doc, err := openapi3.NewLoader().LoadFromData(docs.OpenAPI)
	if err != nil {
		t.Fatalf("load docs/openapi.yaml: %v", err)
	}
	if err := doc.Validate(context.Background(), openapi3.EnableExamplesValidation()); err != nil {
		t.Fatalf("validate docs/openapi.yaml: %v", err)
	}
	if !doc.IsOpenAPI31OrLater() {
		t.Errorf("version %s, want 3.1", doc.OpenAPI)
	}
}

func TestDescriptionListsEveryKindOfChange(t *testing.T) {
	t.Parallel()
	doc := testdb.Must(openapi3.NewLoader().LoadFromData(docs.OpenAPI))(t)
	var listed []string
	for _, kind := range doc.Components.Schemas["ChangeType"].Value.Enum {
		listed = append(listed, fmt.Sprint(kind))
	}
	if diff := cmp.Diff(events.ChangeKinds(), listed); diff != "" {
		t.Errorf("kinds of change (-service +described)\n%s", diff)
	}
}

// details returns the text of every problem with a fixed text, or one that follows from the example.
func details(example Problem) map[problems.Code]string {
	var fields []problems.FieldError
	for _, f := range example.Errors {
		fields = append(fields, problems.FieldError(f))
	}
	texts := map[problems.Code]string{}
	for _, p := range []*problems.Error{
		problems.ErrNovelNotFound, problems.ErrNovelRejected, problems.ErrAuthorBlocked, problems.ErrRequestTimeout,
		problems.PayloadTooLarge(maxBody), problems.UnsupportedMediaType("application/json", "text/plain"),
		problems.RateLimited(0), problems.Unavailable(0), problems.ErrNotFound, problems.ErrGone,
		problems.MethodNotAllowed(http.MethodPost), problems.Internal(nil),
	} {
		texts[p.Code] = p.Detail
	}
	if len(fields) > 0 {
		texts[problems.CodeInvalidRequest] = problems.InvalidRequest(fields...).Detail
	}
	return texts
}

func TestDescriptionShowsEveryProblemAsItIs(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromData(docs.OpenAPI)
	if err != nil {
		t.Fatalf("load docs/openapi.yaml: %v", err)
	}
	shown := map[problems.Code]bool{}
	for name, response := range doc.Components.Responses {
		content := response.Value.Content.Get(problems.ContentType)
		if content == nil {
			if name != "NotModified" {
				t.Errorf("%s has no %s", name, problems.ContentType)
			}
			continue
		}
		for title, example := range content.Examples {
			var got Problem
			encoded := testdb.Must(json.Marshal(example.Value.Value))(t)
			if err := json.Unmarshal(encoded, &got); err != nil {
				t.Fatalf("%s, %s: %v", name, title, err)
			}
			code := problems.Code(got.Code)
			if !slices.Contains(problems.All(), code) {
				t.Errorf("%s, %s: the service has no code %q", name, title, code)
				continue
			}
			shown[code] = true
			want := got
			want.Type, want.Title, want.Status, want.Retryable = "about:blank", code.Title(), code.Status(), code.Retryable()
			if detail, ok := details(got)[code]; ok {
				want.Detail = detail
			}
			if name == "QueriesLimited" { // shares its code with the limits of commands
				want.Detail = problems.TooManyRequests(0).Detail
			}
			want.Field = ""
			if len(got.Errors) > 0 {
				want.Field = got.Errors[0].Field
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, %s (-service +description)\n%s", name, title, diff)
			}
		}
	}
	for _, code := range problems.All() {
		if !shown[code] {
			t.Errorf("%s has no example", code)
		}
	}
}

func TestServiceServesItsDescription(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	response := s.Send(t, Request{Path: "/openapi.yaml"})
	if response.Status != http.StatusOK {
		t.Fatalf("status %d, want 200", response.Status)
	}
	if diff := cmp.Diff(string(docs.OpenAPI), string(response.Body)); diff != "" {
		t.Errorf("body (-docs/openapi.yaml +got)\n%s", diff)
	}
}

// complaints is a testing.TB that collects failures.
type complaints struct {
	testing.TB
	said []string
}

func (c *complaints) Errorf(format string, args ...any) {
	c.said = append(c.said, fmt.Sprintf(format, args...))
}

// exchange is a request with an answer. Each test below makes a correct one wrong.
type exchange struct {
	method, path, body string
	status             int
	header             map[string]string
	answer             string
}

func imported() exchange {
	return exchange{
		method: http.MethodPost, path: PostsPath, body: `{"uuid":"u","username":"n","novel":"t","content":"c"}`,
		status: 201,
		header: map[string]string{
			"Content-Type": "application/json", "X-Request-Id": "r", "RateLimit": `"posts";r=59;t=60`,
			"RateLimit-Policy": `"posts";q=60;w=60`,
			"Location":         "https://example.org/novels/t",
		},
		answer: `{"created":true,"postId":"3f1c1f0e-3d55-5a86-9d2a-1f5f0f7c1b01","threadId":"7a0c1d1c-6a0e-5d4e-8f37-9a9a2c6d4c02",
			"parentPostId":null,"url":"https://example.org/novels/t/discussion?post=3f1c1f0e-3d55-5a86-9d2a-1f5f0f7c1b01#post-3f1c1f0e-3d55-5a86-9d2a-1f5f0f7c1b01"}`,
	}
}

func problem(status int, code string) exchange {
	e := imported()
	e.status = status
	delete(e.header, "Location")
	e.header["Content-Type"] = "application/problem+json"
	e.answer = fmt.Sprintf(`{"type":"about:blank","title":"T","status":%d,"detail":"D","code":%q,"requestId":"r","retryable":false}`, status, code)
	return e
}

// TestDescriptionIsEnforced tests the check that every other test relies on.
func TestDescriptionIsEnforced(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		base  exchange
		spoil func(*exchange)
		right bool
	}{
		"created":         {imported(), func(*exchange) {}, true},
		"invalid request": {problem(400, "invalid_request"), func(*exchange) {}, true},
		"unknown method": {problem(405, "method_not_allowed"), func(e *exchange) {
			e.method, e.header["Allow"] = "BREW", "POST"
			delete(e.header, "RateLimit")
			delete(e.header, "RateLimit-Policy")
		}, true},

		"undocumented status": {imported(), func(e *exchange) { e.status = 202 }, false},
		"undocumented header": {imported(), func(e *exchange) { e.header["Idempotent-Replayed"] = "true" }, false},
		"missing member": {
			imported(), func(e *exchange) { e.answer = strings.Replace(e.answer, "parentPostId", "parent", 1) }, false,
		},
		"no JSON":                   {imported(), func(e *exchange) { e.answer = "created" }, false},
		"problem with a wrong code": {problem(404, "novel_rejected"), func(*exchange) {}, false},
		"unknown path, bare": {
			problem(404, "not_found"), func(e *exchange) { e.path, e.answer = "/nowhere", "404 page not found" }, false,
		},
		"invalid request accepted": {
			imported(), func(e *exchange) { e.body = `{"uuid":"u","username":"n","novel":"t"}` }, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.base.header = maps.Clone(test.base.header)
			test.spoil(&test.base)
			heard := test.base.play(t)
			if test.right && len(heard) > 0 {
				t.Errorf("a correct exchange is called wrong: %s", heard[0])
			}
			if !test.right && len(heard) == 0 {
				t.Error("nothing was noticed")
			}
		})
	}
}

// play serves the answer, sends the request and returns the failures.
func (e exchange) play(t *testing.T) []string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range e.header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(e.status)
		_, _ = w.Write([]byte(e.answer)) // a failure shows in the client
	}))
	defer server.Close()
	recorder := &complaints{TB: t}
	s := Attach(server.URL)
	s.Send(recorder, Request{
		Method: e.method, Path: e.path, Bearer: "ngp_x", Key: "k", ContentType: "application/json", Body: []byte(e.body),
		Header: http.Header{"Connection": {"close"}},
	})
	return recorder.said
}
