package docs_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/oasdiff/oasdiff/checker"
	"github.com/oasdiff/oasdiff/diff"
	"github.com/oasdiff/oasdiff/load"

	"novelgate/docs"
)

// breaks returns what a description of the interface breaks for the clients of an older one.
func breaks(t *testing.T, released, now *openapi3.T) (found []string) {
	t.Helper()
	difference, sources, err := diff.GetWithOperationsSourcesMap(diff.NewConfig(),
		&load.SpecInfo{Spec: released}, &load.SpecInfo{Spec: now})
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range checker.CheckBackwardCompatibilityUntilLevel(
		checker.NewConfig(checker.GetAllChecks()), difference, sources, checker.INFO) {
		switch id := change.GetId(); {
		case id == "response-property-enum-value-added":
			continue // clients expect new values, says the description
		case change.GetLevel() == checker.INFO && !slices.Contains([]string{
			// Removing these breaks clients that decide by them, although no schema says so.
			"response-optional-property-removed", "response-property-enum-value-removed",
			"response-non-success-status-removed", "optional-response-header-removed",
		}, id):
			continue
		}
		found = append(found, change.GetOperation()+" "+change.GetPath()+": "+
			change.GetUncolorizedText(checker.NewDefaultLocalizer()))
	}
	return found
}

// TestReleased: clients of every released version work with today's interface. testdata has the
// description of each; before 1.0 a release that breaks clients says so in the changelog and removes the older ones.
func TestReleased(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/openapi-*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no released descriptions: %v", err)
	}
	for _, path := range paths {
		released, err := openapi3.NewLoader().LoadFromFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, broken := range breaks(t, released, today(t)) {
			t.Errorf("%s: %s", path, broken)
		}
	}
}

// today returns a copy of docs/openapi.yaml.
func today(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(docs.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestBreaks: removals and new demands break clients, additions do not.
func TestBreaks(t *testing.T) {
	t.Parallel()
	schema := func(doc *openapi3.T, name string) *openapi3.Schema { return doc.Components.Schemas[name].Value }
	text := openapi3.NewStringSchema().NewRef()
	for name, test := range map[string]struct {
		change func(doc *openapi3.T)
		broken bool
	}{
		"nothing": {func(*openapi3.T) {}, false},
		"new path": {func(doc *openapi3.T) {
			doc.Paths.Set("/api/new", &openapi3.PathItem{Get: doc.Paths.Value("/api/activity").Get})
		}, false},
		"new field of a request": {func(doc *openapi3.T) { schema(doc, "NovelUpsert").Properties["new"] = text }, false},
		"new field of an answer": {func(doc *openapi3.T) { schema(doc, "NovelAnswer").Properties["new"] = text }, false},
		"new value": {func(doc *openapi3.T) {
			schema(doc, "ChangeType").Enum = append(schema(doc, "ChangeType").Enum, "novel.sold")
		}, false},

		"path":      {func(doc *openapi3.T) { doc.Paths.Delete("/api/activity") }, true},
		"operation": {func(doc *openapi3.T) { doc.Paths.Value("/api/admin/novels").Get = nil }, true},
		"parameter": {func(doc *openapi3.T) { doc.Paths.Value("/api/novels").Get.Parameters = nil }, true},
		"status": {func(doc *openapi3.T) {
			doc.Paths.Value("/api/integrations/posts").Post.Responses.Delete("404")
		}, true},
		"field of an answer": {func(doc *openapi3.T) { delete(schema(doc, "NovelAnswer").Properties, "warnings") }, true},
		"field of a request": {func(doc *openapi3.T) { delete(schema(doc, "NovelUpsert").Properties, "language") }, true},
		"type": {func(doc *openapi3.T) {
			schema(doc, "NovelAnswer").Properties["slug"].Value.Type = &openapi3.Types{"integer"}
		}, true},
		"value": {func(doc *openapi3.T) {
			schema(doc, "Operation").Enum = schema(doc, "Operation").Enum[:1]
		}, true},
		"error code": {func(doc *openapi3.T) {
			problem := doc.Components.Responses["StaffConflict"].Value.Content.Get("application/problem+json").Schema.Value
			code := problem.AllOf[1].Value.Properties["code"].Value
			code.Enum = code.Enum[:1]
		}, true},
		"required": {func(doc *openapi3.T) {
			upsert := schema(doc, "NovelUpsert")
			upsert.Required = append(upsert.Required, "author")
		}, true},
		"shorter": {func(doc *openapi3.T) { schema(doc, "NovelTitle").WithMaxLength(3) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := today(t)
			test.change(now)
			if found := breaks(t, today(t), now); (len(found) > 0) != test.broken {
				t.Errorf("broken: %q", found)
			}
		})
	}
}
