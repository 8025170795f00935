package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"novelgate/internal/problem"
)

// The two operations.
const (
	NovelsPath = "/api/integrations/novels"
	PostsPath  = "/api/integrations/posts"
)

// Request is an HTTP request. Empty fields are not sent.
type Request struct {
	Method      string // GET when empty
	Path        string // from the leading slash on
	Bearer      string // API key, sent as `Authorization: Bearer …`
	Key         string // Idempotency-Key
	ContentType string
	Header      http.Header // further headers, as they are
	Body        []byte
	Chunked     bool // send the body without a Content-Length
	Once        bool // net/http must not repeat the request by itself
	Closing     bool // use a connection only for this request
}

// Response is a complete answer.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Send sends the request and compares request and answer with docs/openapi.yaml.
func (s *Service) Send(t testing.TB, r Request) Response {
	t.Helper()
	response, err := s.TrySend(t, r)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", r.Method, r.Path, err, s.said())
	}
	return response
}

// TrySend is Send for tests in which the connection may fail.
func (s *Service) TrySend(t testing.TB, r Request) (Response, error) {
	t.Helper()
	response, err := s.do(context.Background(), r)
	if err == nil {
		s.holdAgainstDescription(t, r, response)
	}
	return response, err
}

// do sends the request.
func (s *Service) do(ctx context.Context, r Request) (response Response, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := s.httpRequest(ctx, r)
	if err != nil {
		return response, err
	}
	answer, err := s.http.Do(request)
	if err != nil {
		return response, fmt.Errorf("get an answer: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	response.Status, response.Header = answer.StatusCode, answer.Header
	if response.Body, err = io.ReadAll(answer.Body); err != nil {
		return response, fmt.Errorf("read the answer: %w", err)
	}
	if s.heard != nil {
		_, _ = fmt.Fprintf(s.heard, "%v\n%s\n", response.Header, response.Body)
	}
	return response, nil
}

func (s *Service) httpRequest(ctx context.Context, r Request) (*http.Request, error) {
	var body io.Reader
	if r.Body != nil {
		body = bytes.NewReader(r.Body)
	}
	if r.Chunked {
		body = struct{ io.Reader }{body} // hides the length
	}
	request, err := http.NewRequestWithContext(ctx, r.Method, s.URL+r.Path, body)
	if err != nil {
		return nil, fmt.Errorf("make HTTP request: %w", err)
	}
	if r.Bearer != "" {
		request.Header.Set("Authorization", "Bearer "+r.Bearer)
	}
	if r.Key != "" {
		request.Header.Set("Idempotency-Key", r.Key)
	}
	if r.ContentType != "" {
		request.Header.Set("Content-Type", r.ContentType)
	}
	for name, values := range r.Header {
		request.Header[http.CanonicalHeaderKey(name)] = values
	}
	request.Close = r.Closing
	if r.Once {
		request.GetBody = nil
	}
	return request, nil
}

// Get gets a URL, also one that docs/openapi.yaml does not describe, over its own connection.
func Get(t testing.TB, url string) (status int, body string) {
	t.Helper()
	service := Attach(url)
	response, err := service.do(context.Background(), Request{Closing: true})
	if err != nil {
		t.Fatalf("get %s: %v", url, err)
	}
	return response.Status, string(response.Body)
}

// Novel is the body of a successful upsert.
type Novel struct {
	Created   bool   `json:"created"`
	Updated   bool   `json:"updated"`
	Canonical bool   `json:"canonical"`
	NovelID   string `json:"novelId"`
	Slug      string `json:"slug"`
	URL       string `json:"url"`
}

// Post is the body of a successful import.
type Post struct {
	Created      bool    `json:"created"`
	PostID       string  `json:"postId"`
	ThreadID     string  `json:"threadId"`
	ParentPostID *string `json:"parentPostId"`
	URL          string  `json:"url"`
}

// Problem is the body of every error.
type Problem struct {
	Type      string               `json:"type"`
	Title     string               `json:"title"`
	Status    int                  `json:"status"`
	Detail    string               `json:"detail"`
	Code      string               `json:"code"`
	RequestID string               `json:"requestId"`
	Retryable bool                 `json:"retryable"`
	Field     string               `json:"field"`
	Errors    []problem.FieldError `json:"errors"`
}

// WantNovel expects a successful upsert with the status.
func (r Response) WantNovel(t testing.TB, status int) Novel {
	t.Helper()
	return want[Novel](t, r, status)
}

// WantPost expects a successful import with the status.
func (r Response) WantPost(t testing.TB, status int) Post {
	t.Helper()
	return want[Post](t, r, status)
}

// WantProblem expects an error with the status and the code.
func (r Response) WantProblem(t testing.TB, status int, code string) Problem {
	t.Helper()
	problem := want[Problem](t, r, status)
	if problem.Code != code {
		t.Errorf("code %q, want %q\n%s", problem.Code, code, r.Body)
	}
	if problem.Status != status {
		t.Errorf("the body says status %d, the answer is %d", problem.Status, status)
	}
	if id := r.Header.Get("X-Request-Id"); problem.RequestID != id {
		t.Errorf("the body says request %q, the header says %q", problem.RequestID, id)
	}
	return problem
}

// WantInvalid expects invalid_request for the field, in `field`, `errors` and the message.
func (r Response) WantInvalid(t testing.TB, field string) Problem {
	t.Helper()
	problem := r.WantProblem(t, 400, "invalid_request")
	if problem.Field != field {
		t.Errorf("field %q, want %q\n%s", problem.Field, field, r.Body)
	}
	if !strings.Contains(problem.Detail, field) {
		t.Errorf("the message does not name %s\n%s", field, r.Body)
	}
	if len(problem.Errors) == 0 || problem.Errors[0].Field != problem.Field {
		t.Errorf("errors does not begin with %s\n%s", problem.Field, r.Body)
	}
	return problem
}

// WantReplayed expects the two headers of a replay, or their absence.
func (r Response) WantReplayed(t testing.TB, replayed, mismatch bool) {
	t.Helper()
	for name, want := range map[string]bool{"Idempotent-Replayed": replayed, "Idempotency-Mismatch": mismatch} {
		if got := r.Header.Get(name); got != map[bool]string{true: "true"}[want] {
			t.Errorf("%s is %q, want %v\n%d %s", name, got, want, r.Status, r.Body)
		}
	}
}

// WantJSON wants the status and decodes the answer into into.
func (r Response) WantJSON(t testing.TB, status int, into any) {
	t.Helper()
	if r.Status != status {
		t.Fatalf("status %d, want %d\n%s", r.Status, status, r.Body)
	}
	if err := json.Unmarshal(r.Body, into); err != nil {
		t.Fatalf("decode the answer: %v\n%s", err, r.Body)
	}
}

func want[T any](t testing.TB, r Response, status int) T {
	t.Helper()
	var body T
	r.WantJSON(t, status, &body)
	return body
}

// Route is an operation of docs/openapi.yaml.
type Route struct {
	Method, Path string // the path with its parameters, as it is written there
	Operation    *openapi3.Operation
}

// String returns the name of the route in tables of tests.
func (r Route) String() string { return r.Method + " " + r.Path }

// NeedsKey reports whether an Idempotency-Key is required.
func (r Route) NeedsKey() bool {
	parameter := r.Operation.Parameters.GetByInAndName("header", "Idempotency-Key")
	return parameter != nil && parameter.Required
}

// security returns the names of the kinds of key that the route accepts; "" for a public route.
func (r Route) security() string {
	var kinds []string
	for _, requirement := range *r.Operation.Security {
		kinds = slices.AppendSeq(kinds, maps.Keys(requirement))
	}
	slices.Sort(kinds)
	return strings.Join(kinds, " ")
}

// Routes returns all operations of docs/openapi.yaml, sorted.
func Routes(t testing.TB) []Route {
	t.Helper()
	loaded, err := description()
	if err != nil {
		t.Fatalf("load docs/openapi.yaml: %v", err)
	}
	var routes []Route
	for path, item := range loaded.doc.Paths.Map() {
		for method, operation := range item.Operations() {
			routes = append(routes, Route{method, path, operation})
		}
	}
	slices.SortFunc(routes, func(a, b Route) int { return strings.Compare(a.Path+" "+a.Method, b.Path+" "+b.Method) })
	return routes
}
