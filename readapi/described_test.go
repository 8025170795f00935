package readapi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"novelgate/docs"
)

var description = sync.OnceValues(func() (routers.Router, error) {
	doc, err := openapi3.NewLoader().LoadFromData(docs.OpenAPI)
	if err != nil {
		return nil, fmt.Errorf("parse docs/openapi.yaml: %w", err)
	}
	doc.Servers = nil
	return gorillamux.NewRouter(doc)
})

// checkDescribed fails unless an answer, and a request that has succeeded, are as docs/openapi.yaml says.
func checkDescribed(t testing.TB, r *http.Request, got *httptest.ResponseRecorder) {
	t.Helper()
	router, err := description()
	if err != nil {
		t.Fatal(err)
	}
	route, parameters, err := router.FindRoute(r)
	if err != nil {
		if got.Code != http.StatusNotFound && !strings.HasPrefix(r.URL.Path, "/assets/") {
			t.Errorf("%s is not described: %v", r.URL, err)
		}
		return
	}
	request := &openapi3filter.RequestValidationInput{
		Request: r, Route: route, PathParams: parameters,
		Options: &openapi3filter.Options{
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, SkipSettingDefaults: true,
		},
	}
	if got.Code < http.StatusBadRequest {
		if err := openapi3filter.ValidateRequest(context.Background(), request); err != nil {
			t.Errorf("GET %s succeeded although it is described as invalid: %v", r.URL, err)
		}
	}
	if err := openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: request, Status: got.Code, Header: got.Header(),
		Body:    io.NopCloser(bytes.NewReader(got.Body.Bytes())),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}); err != nil {
		t.Errorf("the answer to GET %s is not as described: %v\n%d %.2000s", r.URL, err, got.Code, got.Body)
	}
}

// answered are the answers of the JSON routes, as far as tests look at them.
type (
	novelAnswer struct {
		NovelID       uuid.UUID `json:"novelId"`
		Slug          string    `json:"slug"`
		URL           string    `json:"url"`
		Novel         string    `json:"novel"`
		Author        string    `json:"author"`
		Synopsis      string    `json:"synopsis"`
		Genres        []string  `json:"genres"`
		ReadingStatus string    `json:"readingStatus"`
		State         string    `json:"state"`
		Platform      *string   `json:"platform"`
	}
	listAnswer struct {
		Items      []novelAnswer `json:"items"`
		NextCursor *string       `json:"nextCursor"`
	}
	authorAnswer struct {
		MemberID    string `json:"memberId"`
		DisplayName string `json:"displayName"`
		Platform    string `json:"platform"`
	}
	postAnswer struct {
		PostID        uuid.UUID     `json:"postId"`
		URL           string        `json:"url"`
		ParentPostID  *uuid.UUID    `json:"parentPostId"`
		Depth         int           `json:"depth"`
		Content       *string       `json:"content"`
		Hidden        bool          `json:"hidden"`
		Erased        bool          `json:"erased"`
		Author        *authorAnswer `json:"author"`
		Replies       []postAnswer  `json:"replies"`
		RepliesCursor *string       `json:"repliesCursor"`
	}
	discussionAnswer struct {
		Items          []postAnswer `json:"items"`
		PreviousCursor *string      `json:"previousCursor"`
		NextCursor     *string      `json:"nextCursor"`
	}
)

// read gets an address, wants 200, and decodes the body.
func read[T any](t testing.TB, w *world, path string) T {
	t.Helper()
	got := w.get(t, path)
	if got.Code != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, got.Code, got.Body)
	}
	var body T
	if err := json.Unmarshal(got.Body.Bytes(), &body); err != nil {
		t.Fatalf("GET %s: %v\n%s", path, err, got.Body)
	}
	return body
}

// wantProblem wants an error of a status and a code.
func wantProblem(t testing.TB, w *world, path string, status int, code string) {
	t.Helper()
	got := w.get(t, path)
	var body struct {
		Code string `json:"code"`
	}
	if err := json.Unmarshal(got.Body.Bytes(), &body); err != nil || got.Code != status || body.Code != code {
		t.Errorf("GET %s: %d %s, %v; want %d %s", path, got.Code, got.Body, err, status, code)
	}
}
