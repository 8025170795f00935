package e2e_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"novelgate/docs"
	problems "novelgate/internal/problem"
)

func TestDescriptionIsValid(t *testing.T) {
	t.Parallel()
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

func TestDescriptionListsEveryStatusAndCode(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromData(docs.OpenAPI)
	if err != nil {
		t.Fatalf("load docs/openapi.yaml: %v", err)
	}
	for path, want := range map[string][]string{
		NovelsPath: {"200", "201", "400", "401", "403", "405", "408", "409", "413", "415", "429", "500", "503"},
		PostsPath:  {"200", "201", "400", "401", "403", "404", "405", "408", "413", "415", "429", "500", "503"},
	} {
		var got []string
		for status, response := range doc.Paths.Value(path).Post.Responses.Map() {
			got = append(got, status)
			for mediaType, content := range response.Value.Content {
				if len(content.Examples) == 0 {
					t.Errorf("%s %s %s has no example", path, status, mediaType)
				}
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("statuses of %s (-want +got)\n%s", path, diff)
		}
	}
}

// details has the text of every problem of which the text is always the same, or follows from what the example says.
func details(example Problem) map[problems.Code]string {
	var fields []problems.FieldError
	for _, f := range example.Errors {
		fields = append(fields, problems.FieldError(f))
	}
	texts := map[problems.Code]string{}
	for _, p := range []*problems.Error{
		problems.NovelNotFound(), problems.NovelRejected(), problems.AuthorBlocked(), problems.RequestTimeout(),
		problems.PayloadTooLarge(maxBody), problems.UnsupportedMediaType("text/plain"),
		problems.RateLimited(0), problems.Unavailable(0), problems.NotFound(), problems.Gone(),
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
			t.Errorf("%s has no %s", name, problems.ContentType)
			continue
		}
		for title, example := range content.Examples {
			var got Problem
			encoded, err := json.Marshal(example.Value.Value)
			if err != nil {
				t.Fatal(err)
			}
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
				want.Detail = problems.QueriesLimited(0).Detail
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
	response := s.Send(t, Request{Method: http.MethodGet, Path: "/openapi.yaml"})
	if response.Status != http.StatusOK {
		t.Fatalf("status %d, want 200", response.Status)
	}
	if diff := cmp.Diff(string(docs.OpenAPI), string(response.Body)); diff != "" {
		t.Errorf("body (-docs/openapi.yaml +got)\n%s", diff)
	}
}
