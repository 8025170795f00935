package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"
)

// The two operations.
const (
	NovelsPath = "/api/integrations/novels"
	PostsPath  = "/api/integrations/posts"
)

const requestTimeout = 60 * time.Second

// Request is one HTTP request. What is empty is not sent.
type Request struct {
	Method      string
	Path        string // from the leading slash on
	Bearer      string // API key, sent as `Authorization: Bearer …`
	Key         string // Idempotency-Key
	ContentType string
	Header      http.Header // further headers, as they are
	Body        []byte
	Chunked     bool          // send the body without a Content-Length
	Pause       time.Duration // in the middle of the body, of which the first half needs more than 4 KiB to leave before

	// Beyond says that the service is known to take more than docs/openapi.yaml promises, so that this request is not
	// held against the description although it succeeds. The answer is.
	Beyond bool
}

// Response is one whole answer.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Send sends the request, wants an answer, and holds both against docs/openapi.yaml.
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
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	request, err := s.httpRequest(ctx, r)
	if err != nil {
		t.Fatalf("make request %s %s: %v", r.Method, r.Path, err)
	}
	if r.Pause > 0 {
		half := len(r.Body) / 2
		request.Body = io.NopCloser(io.MultiReader(bytes.NewReader(r.Body[:half]), pause(r.Pause),
			bytes.NewReader(r.Body[half:])))
		request.GetBody = nil
	}
	answer, err := s.http.Do(request)
	if err != nil {
		return Response{}, fmt.Errorf("get an answer: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return Response{}, fmt.Errorf("read the answer: %w", err)
	}
	response := Response{Status: answer.StatusCode, Header: answer.Header, Body: body}
	s.holdAgainstDescription(t, r, response)
	return response, nil
}

// pause is an empty reader that takes its time.
type pause time.Duration

func (p pause) Read([]byte) (int, error) {
	time.Sleep(time.Duration(p))
	return 0, io.EOF
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
	return request, nil
}

// Get fetches what docs/openapi.yaml does not describe, over a connection of its own.
func Get(t testing.TB, url string) (status int, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatalf("make request: %v", err)
	}
	request.Close = true // leaves no idle connection behind
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatalf("get %s: %v", url, err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("read %s: %v", url, err)
	}
	return response.StatusCode, string(text)
}
