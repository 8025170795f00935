package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/google/go-cmp/cmp"

	"novelgate/client"
	"novelgate/docs"
)

// The service of the examples, and the key of a partner.
var baseURL, apiKey = "", "ngp_key"

func TestMain(m *testing.M) {
	d, err := load()
	if err != nil {
		panic(err)
	}
	server := httptest.NewServer(d)
	defer server.Close()
	baseURL = server.URL
	os.Exit(m.Run())
}

// described answers requests with the examples of docs/openapi.yaml. It answers 500 to a request that violates the
// description.
type described struct {
	doc    *openapi3.T
	router routers.Router

	status, example string // of the answer; "": the first successful status, any example
}

func load() (*described, error) {
	doc, err := openapi3.NewLoader().LoadFromData(docs.OpenAPI)
	if err != nil {
		return nil, fmt.Errorf("parse docs/openapi.yaml: %w", err)
	}
	doc.Servers = nil
	openapi3filter.RegisterBodyDecoder("application/x-ndjson", openapi3filter.PlainBodyDecoder)
	router, err := gorillamux.NewRouter(doc)
	return &described{doc: doc, router: router}, err
}

func (d *described) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := d.answer(w, r); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func (d *described) answer(w http.ResponseWriter, r *http.Request) error {
	route, parameters, err := d.router.FindRoute(r)
	if err != nil {
		return fmt.Errorf("find operation: %w", err)
	}
	if err := openapi3filter.ValidateRequest(r.Context(), &openapi3filter.RequestValidationInput{
		Request: r, Route: route, PathParams: parameters, Options: &openapi3filter.Options{
			AuthenticationFunc: func(_ context.Context, input *openapi3filter.AuthenticationInput) error {
				if input.RequestValidationInput.Request.Header.Get("Authorization") != "Bearer "+apiKey {
					return http.ErrNoCookie
				}
				return nil
			},
		},
	}); err != nil {
		return fmt.Errorf("validate request: %w", err)
	}
	status, response := d.status, route.Operation.Responses.Value(d.status)
	for _, success := range []string{"201", "200"} {
		if response == nil {
			status, response = success, route.Operation.Responses.Value(success)
		}
	}
	for mediaType, content := range response.Value.Content {
		for name, example := range content.Examples {
			if d.example != "" && d.example != name {
				continue
			}
			w.Header().Set("Content-Type", mediaType)
			code, err := strconv.Atoi(status)
			if err != nil {
				return fmt.Errorf("status of answer: %w", err)
			}
			w.WriteHeader(code)
			if lines, ok := example.Value.Value.(string); ok {
				_, err := io.WriteString(w, lines)
				return err
			}
			return json.NewEncoder(w).Encode(example.Value.Value)
		}
	}
	return fmt.Errorf("no example %q of %s", d.example, status)
}

// RoundTrip implements http.RoundTripper.
func (d *described) RoundTrip(r *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	http.StripPrefix("/books", d).ServeHTTP(recorder, r)
	return recorder.Result(), nil
}

// call calls the client method of one operation and returns its answer.
type call func(ctx context.Context, c *client.Client) (any, error)

// operationOf returns the operation with a method and path, as in calls.
func (d *described) operationOf(name string) *openapi3.Operation {
	method, path, _ := strings.Cut(name, " ")
	return d.doc.Paths.Value(path).GetOperation(method)
}

var full = client.Novel{
	Title: "A", Author: "b", Synopsis: new("c"), CoverURL: new("https://covers.example.com/d.jpg"), Genres: []string{"e"},
	Language: new("en"), ReadingStatus: "hiatus",
}

var calls = map[string]call{
	"POST /api/integrations/novels": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Novels.Upsert(ctx, "k", full)
	},
	"POST /api/integrations/posts": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Posts.Create(ctx, "k", client.Post{
			UUID: "u", Username: "n", Novel: "A", Content: "c", ChapterNumber: "0", ParentKey: "evt-1",
		})
	},
	"PATCH /api/integrations/posts/{idempotencyKey}": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Posts.Edit(ctx, "k", "evt/1?#%", client.Edit{Content: "c", ChapterNumber: json.RawMessage("null")})
	},
	"DELETE /api/integrations/posts/{idempotencyKey}": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Posts.Withdraw(ctx, "k", "evt/1?#%")
	},
	"POST /api/integrations/posts/{idempotencyKey}/reports": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Posts.Report(ctx, "k", "evt/1?#%", client.Report{Reason: "spam", Detail: "d", Reports: 2})
	},
	"POST /api/integrations/bulk": func(ctx context.Context, c *client.Client) (any, error) {
		var all []client.Outcome
		for outcome, err := range c.Bulk(ctx, comments(2)) {
			if err != nil {
				return nil, err
			}
			all = append(all, outcome)
		}
		return all, nil
	},
	"POST /api/integrations/resolve": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Novels.Resolve(ctx, full)
	},
	"GET /api/integrations/me": func(ctx context.Context, c *client.Client) (any, error) { return c.Me(ctx) },
	"GET /api/integrations/changes": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Changes.Page(ctx, "NzQ1LzI", "novel.rejected", "comment.hidden")
	},
	"PATCH /api/integrations/webhooks/{webhookId}": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Webhooks.Enable(ctx, "01a20d83-df2c-7686-b95b-355bdd37b2b1")
	},
	"GET /api/integrations/deliveries/{idempotencyKey}": func(ctx context.Context, c *client.Client) (any, error) {
		return c.Deliveries.Get(ctx, client.OperationPosts, "evt/1?#%")
	},
}

// TestAnswersAreAsDescribed: the client's types have every member of every successful answer.
func TestAnswersAreAsDescribed(t *testing.T) {
	t.Parallel()
	d, err := load()
	if err != nil {
		t.Fatal(err)
	}
	for operation, call := range calls {
		for _, status := range []string{"200", "201"} {
			response := d.operationOf(operation).Responses.Value(status)
			if response == nil || response.Value.Content["application/json"] == nil {
				continue
			}
			for name, example := range response.Value.Content["application/json"].Examples {
				got, err := call(t.Context(), newClient(t, &described{d.doc, d.router, status, name}))
				if err != nil {
					t.Errorf("%s, %s: %v", operation, name, err)
					continue
				}
				answered, described := members(t, got), members(t, example.Value.Value)
				for member := range answered { // Delivery has the members of both operations
					if _, ok := described[member]; !ok && operation == "GET /api/integrations/deliveries/{idempotencyKey}" {
						delete(answered, member)
					}
				}
				if diff := cmp.Diff(described, answered); diff != "" {
					t.Errorf("%s, %s (-description +client)\n%s", operation, name, diff)
				}
			}
		}
	}
}

func members(t testing.TB, value any) (m map[string]any) {
	t.Helper()
	encoded, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(encoded, &m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestErrorsAreAsDescribed: the client returns every described error of every operation.
func TestErrorsAreAsDescribed(t *testing.T) {
	t.Parallel()
	d, err := load()
	if err != nil {
		t.Fatal(err)
	}
	for operation, call := range calls {
		for status, response := range d.operationOf(operation).Responses.Map() {
			content := response.Value.Content["application/problem+json"]
			if content == nil {
				continue
			}
			for name, example := range content.Examples {
				synctest.Test(t, func(t *testing.T) { // with a fake clock, so that pauses take no time
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					_, err := call(ctx, newClient(t, &described{d.doc, d.router, status, name}))
					got, ok := errors.AsType[*client.Error](err)
					if !ok {
						t.Fatalf("%s, %s: %v", operation, name, err)
					}
					want := members(t, example.Value.Value)
					fields, _ := want["errors"].([]any)
					if got.Code != want["code"] || float64(got.Status) != want["status"] || got.Detail != want["detail"] ||
						got.Retryable != want["retryable"] || len(got.Fields) != len(fields) {
						t.Errorf("%s, %s: %+v, want %v", operation, name, got, want)
					}
				})
			}
		}
	}
}
