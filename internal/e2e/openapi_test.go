package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"novelgate/aggregates/post"
	"novelgate/commands"
	"novelgate/docs"
	"novelgate/events"
	"novelgate/internal/problem"
	"novelgate/internal/testdb"
)

// TestDescription: docs/openapi.yaml is valid, the service serves it with its address, and it lists
// every kind of change.
func TestDescription(t *testing.T) {
	t.Parallel()
	doc := testdb.Must(openapi3.NewLoader().LoadFromData(docs.OpenAPI))(t)
	if err := doc.Validate(t.Context(), openapi3.EnableExamplesValidation()); err != nil || !doc.IsOpenAPI31OrLater() {
		t.Errorf("validate docs/openapi.yaml, version %s: %v", doc.OpenAPI, err)
	}
	s := Shared(t)
	want := bytes.Replace(docs.OpenAPI, []byte("http://127.0.0.1:8080"), []byte(s.URL), 1)
	if served := s.Send(t, Request{Path: "/openapi.yaml"}); !bytes.Equal(served.Body, want) {
		t.Errorf("the service serves another description: %d %.500s", served.Status, served.Body)
	}
	var listed []string
	for _, kind := range doc.Components.Schemas["ChangeType"].Value.Enum {
		listed = append(listed, fmt.Sprint(kind))
	}
	if diff := cmp.Diff(events.ChangeKinds(), listed); diff != "" {
		t.Errorf("kinds of change (-service +described)\n%s", diff)
	}
}

func TestDescriptionShowsEveryProblemAsItIs(t *testing.T) {
	t.Parallel()
	details := map[problem.Code]string{} // fixed texts
	for _, p := range []*problem.Error{
		problem.ErrNovelNotFound, problem.ErrNovelRejected, problem.ErrAuthorBlocked, problem.ErrRequestTimeout,
		problem.PayloadTooLarge(32_768), problem.UnsupportedMediaType("application/json", "text/plain"),
		problem.RateLimited(0), problem.Unavailable(0), problem.ErrNotFound, problem.ErrGone,
		problem.MethodNotAllowed(http.MethodPost), problem.Internal(nil),
	} {
		details[p.Code] = p.Detail
	}
	shown := map[problem.Code]bool{}
	for name, response := range testdb.Must(description())(t).doc.Components.Responses {
		content := response.Value.Content.Get(problem.ContentType)
		if content == nil {
			if name != "NotModified" {
				t.Errorf("%s has no %s", name, problem.ContentType)
			}
			continue
		}
		for title, example := range content.Examples {
			var got Problem
			if err := json.Unmarshal(testdb.Must(json.Marshal(example.Value.Value))(t), &got); err != nil {
				t.Fatalf("%s, %s: %v", name, title, err)
			}
			code := problem.Code(got.Code)
			if !slices.Contains(problem.All(), code) {
				t.Errorf("%s, %s: the service has no code %q", name, title, code)
				continue
			}
			shown[code] = true
			want := got
			want.Type, want.Title, want.Status, want.Retryable = "about:blank", code.Title(), code.Status(), code.Retryable()
			if want.Field = ""; details[code] != "" {
				want.Detail = details[code]
			}
			if len(got.Errors) > 0 {
				want.Field, want.Detail = got.Errors[0].Field, problem.InvalidRequest(got.Errors...).Detail
			}
			switch name { // they share their codes with other responses
			case "QueriesLimited":
				want.Detail = problem.TooManyRequests(0).Detail
			case "CommentNotFound":
				want.Detail = commands.Problem(post.ErrNotFound).Detail
			case "CommentGone":
				want.Detail = commands.Problem(post.ErrWithdrawn).Detail
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, %s (-service +description)\n%s", name, title, diff)
			}
		}
	}
	for _, code := range problem.All() {
		if !shown[code] {
			t.Errorf("%s has no example", code)
		}
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

// exchange is a request with an answer. The test below makes a correct one wrong.
type exchange struct {
	method, path, body string
	status             int
	header             map[string]string
	answer             string
}

func imported() exchange {
	const id, thread = "3f1c1f0e-3d55-5a86-9d2a-1f5f0f7c1b01", "7a0c1d1c-6a0e-5d4e-8f37-9a9a2c6d4c02"
	return exchange{
		method: http.MethodPost, path: PostsPath, body: `{"uuid":"u","username":"n","novel":"t","content":"c"}`,
		status: 201,
		header: map[string]string{
			"Content-Type": "application/json", "X-Request-Id": "r", "RateLimit": `"posts";r=59;t=60`,
			"RateLimit-Policy": `"posts";q=60;w=60`, "Location": "https://example.org/novels/t",
		},
		answer: `{"created":true,"postId":"` + id + `","threadId":"` + thread + `","parentPostId":null,
			"url":"https://example.org/novels/t/discussion?post=` + id + `#post-` + id + `"}`,
	}
}

func refusedImport(status int, code string) exchange {
	e := imported()
	e.status = status
	delete(e.header, "Location")
	e.header["Content-Type"] = "application/problem+json"
	e.answer = fmt.Sprintf(`{"type":"about:blank","title":"T","status":%d,"detail":"D","code":%q,"requestId":"r",
		"retryable":false}`, status, code)
	return e
}

// TestDescriptionIsEnforced tests the check that every other test relies on.
func TestDescriptionIsEnforced(t *testing.T) {
	t.Parallel()
	keep := func(*exchange) {}
	for name, test := range map[string]struct {
		base  exchange
		spoil func(*exchange)
		right bool
	}{
		"created":         {imported(), keep, true},
		"invalid request": {refusedImport(400, "invalid_request"), keep, true},
		"unknown method": {refusedImport(405, "method_not_allowed"), func(e *exchange) {
			e.method, e.header = "BREW", map[string]string{
				"Allow": "POST", "Content-Type": "application/problem+json", "X-Request-Id": "r",
			}
		}, true},

		"undocumented status": {imported(), func(e *exchange) { e.status = 202 }, false},
		"undocumented header": {imported(), func(e *exchange) { e.header["Idempotent-Replayed"] = "true" }, false},
		"missing member": {
			imported(), func(e *exchange) { e.answer = strings.Replace(e.answer, "parentPostId", "parent", 1) }, false,
		},
		"no JSON":                   {imported(), func(e *exchange) { e.answer = "created" }, false},
		"problem with a wrong code": {refusedImport(404, "novel_rejected"), keep, false},
		"unknown path, bare": {
			refusedImport(404, "not_found"), func(e *exchange) { e.path, e.answer = "/nowhere", "404 page not found" }, false,
		},
		"invalid request accepted": {
			imported(), func(e *exchange) { e.body = `{"uuid":"u","username":"n","novel":"t"}` }, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := test.base
			test.spoil(&e)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for name, value := range e.header {
					w.Header().Set(name, value)
				}
				w.WriteHeader(e.status)
				_, _ = w.Write([]byte(e.answer)) // a failure shows in the client
			}))
			defer server.Close()
			recorder := &complaints{TB: t}
			Attach(server.URL).Send(recorder, Request{
				Method: e.method, Path: e.path, Bearer: "ngp_x", Key: "k", ContentType: "application/json", Body: []byte(e.body),
				Closing: true,
			})
			if test.right != (len(recorder.said) == 0) {
				t.Errorf("want no complaint: %v, got %q", test.right, recorder.said)
			}
		})
	}
}
