package blackbox_test

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"novelgate/docs"
	"novelgate/internal/blackbox"
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
		blackbox.NovelsPath: {"200", "201", "400", "401", "403", "409", "413", "415", "429", "500", "503"},
		blackbox.PostsPath:  {"200", "201", "400", "401", "403", "404", "413", "415", "429", "500", "503"},
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

func TestServiceServesItsDescription(t *testing.T) {
	t.Parallel()
	s := blackbox.Shared(t)
	response := s.Send(t, blackbox.Request{Method: http.MethodGet, Path: "/openapi.yaml"})
	if response.Status != http.StatusOK {
		t.Fatalf("status %d, want 200", response.Status)
	}
	if diff := cmp.Diff(string(docs.OpenAPI), string(response.Body)); diff != "" {
		t.Errorf("body (-docs/openapi.yaml +got)\n%s", diff)
	}
}
