package e2e_test

import (
	"cmp"
	"slices"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// Route is an operation of docs/openapi.yaml.
type Route struct {
	Method, Path string // the path with its parameters, as it is written there
	Operation    *openapi3.Operation
}

// String is how the tests' tables name the route.
func (r Route) String() string { return r.Method + " " + r.Path }

// NeedsKey tells whether an Idempotency-Key is required.
func (r Route) NeedsKey() bool {
	parameter := r.Operation.Parameters.GetByInAndName("header", "Idempotency-Key")
	return parameter != nil && parameter.Required
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
	slices.SortFunc(routes,
		func(a, b Route) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method)) })
	return routes
}
