package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"novelgate/docs"
)

// description is docs/openapi.yaml, loaded once per process.
var description = sync.OnceValues(func() (*loadedDescription, error) {
	doc, err := openapi3.NewLoader().LoadFromData(docs.OpenAPI)
	if err != nil {
		return nil, fmt.Errorf("parse docs/openapi.yaml: %w", err)
	}
	openapi3filter.RegisterBodyDecoder("application/x-ndjson", openapi3filter.PlainBodyDecoder)
	doc.Servers = nil // every tested service has its own port
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		return nil, fmt.Errorf("route docs/openapi.yaml: %w", err)
	}
	return &loadedDescription{doc: doc, router: router}, nil
})

type loadedDescription struct {
	doc    *openapi3.T
	router routers.Router
}

// holdAgainstDescription compares an exchange with docs/openapi.yaml. It checks the request if it has succeeded: a
// description must not forbid what the service accepts.
func (s *Service) holdAgainstDescription(t testing.TB, r Request, response Response) {
	t.Helper()
	loaded, err := description()
	if err != nil {
		t.Fatalf("load docs/openapi.yaml: %v", err)
	}
	request, err := s.httpRequest(context.Background(), r)
	if err != nil {
		t.Fatalf("make request %s %s: %v", r.Method, r.Path, err)
	}
	input := &openapi3filter.RequestValidationInput{
		Request: request,
		Options: &openapi3filter.Options{
			AuthenticationFunc:  openapi3filter.NoopAuthenticationFunc,
			SkipSettingDefaults: true,
		},
	}
	if input.Route, input.PathParams, err = loaded.find(request); err != nil {
		t.Errorf("%s %s is not in docs/openapi.yaml: %v", r.Method, r.Path, err)
		return
	}
	if err := loaded.checkResponse(input, response); err != nil {
		t.Errorf("the answer to %s %s is not what docs/openapi.yaml says: %v\n%d %v\n%s",
			r.Method, r.Path, err, response.Status, response.Header, response.Body)
	}
	if response.Status >= http.StatusInternalServerError && response.Status != http.StatusServiceUnavailable {
		t.Errorf("%s %s ended in %d\n%s\n%s", r.Method, r.Path, response.Status, response.Body, s.said())
	}
	if response.Status < http.StatusBadRequest {
		if err := openapi3filter.ValidateRequest(context.Background(), input); err != nil {
			t.Errorf("%s %s succeeded although docs/openapi.yaml calls it invalid: %v\n%.2000s", r.Method, r.Path, err, r.Body)
		}
	}
}

// find returns the documented operation. For an undocumented path or method it returns one with only the answers
// NotFound or MethodNotAllowed.
func (d *loadedDescription) find(request *http.Request) (*routers.Route, map[string]string, error) {
	tile, isTile := strings.CutPrefix(request.URL.Path, "/ledger/tile/")
	if isTile { // has slashes, which no parameter of a path may have in OpenAPI
		request = request.Clone(request.Context())
		request.URL.Path, request.URL.RawPath = "/ledger/tile/tile", ""
	}
	route, parameters, err := d.router.FindRoute(request)
	if isTile && err == nil {
		parameters["tile"] = tile
	}
	switch {
	case err == nil:
		return route, parameters, nil
	case errors.Is(err, routers.ErrPathNotFound):
		return d.only(http.StatusNotFound, "404", "NotFound"), nil, nil
	case errors.Is(err, routers.ErrMethodNotAllowed):
		return d.only(http.StatusMethodNotAllowed, "405", "MethodNotAllowed"), nil, nil
	default:
		return nil, nil, fmt.Errorf("find operation: %w", err)
	}
}

func (d *loadedDescription) only(status int, key, response string) *routers.Route {
	responses := openapi3.NewResponsesWithCapacity(1)
	responses.Set(key, d.doc.Components.Responses[response])
	operation := &openapi3.Operation{OperationID: http.StatusText(status), Responses: responses}
	return &routers.Route{Spec: d.doc, PathItem: &openapi3.PathItem{}, Operation: operation}
}

func (d *loadedDescription) checkResponse(request *openapi3filter.RequestValidationInput, response Response) error {
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: request,
		Status:                 response.Status,
		Header:                 response.Header,
		Body:                   io.NopCloser(bytes.NewReader(response.Body)),
		Options:                &openapi3filter.Options{IncludeResponseStatus: true},
	}
	if err := openapi3filter.ValidateResponse(context.Background(), input); err != nil {
		return fmt.Errorf("validate answer: %w", err)
	}
	documented := request.Route.Operation.Responses.Status(response.Status)
	if documented == nil { // not even looked at for HEAD
		return nil
	}
	// Headers that change the meaning of an answer: each is documented for the status or absent.
	for _, name := range []string{
		"Allow", "Idempotency-Mismatch", "Idempotent-Replayed", "Location", "RateLimit", "RateLimit-Policy", "Retry-After",
		"WWW-Authenticate",
	} {
		_, known := documented.Value.Headers[name]
		if !known && slices.ContainsFunc(response.Header.Values(name), func(v string) bool { return v != "" }) {
			return errors.New("undocumented header " + name)
		}
	}
	return nil
}
