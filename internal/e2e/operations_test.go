package e2e_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

func TestHealthOnBothListeners(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	for _, path := range []string{"/healthz", "/readyz"} {
		if response := s.Send(t, Request{Method: http.MethodGet, Path: path}); response.Status != http.StatusOK {
			t.Errorf("%s is %d, want 200", path, response.Status)
		}
		if status, _ := Get(t, s.OpsURL+path); status != http.StatusOK {
			t.Errorf("%s on the operations listener is %d, want 200", path, status)
		}
	}
}

func TestMetricsAndProfilesStayOnTheOperationsListener(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	status, body := Get(t, s.OpsURL+"/metrics")
	if status != http.StatusOK || !strings.Contains(body, "go_goroutines") {
		t.Errorf("/metrics is %d, want 200 with metrics of the Go runtime\n%.500s", status, body)
	}
	if status, _ := Get(t, s.OpsURL+"/debug/pprof/"); status != http.StatusOK {
		t.Errorf("/debug/pprof/ is %d, want 200", status)
	}
	for _, path := range []string{"/metrics", "/debug/pprof/"} {
		s.Send(t, Request{Method: http.MethodGet, Path: path}).WantProblem(t, 404, "not_found")
	}
}

// TestRouteLabelsAreDocumentedPaths reads the labels after requests to every route, and to one with a key that has
// slashes.
func TestRouteLabelsAreDocumentedPaths(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	documented := map[string]bool{}
	for _, route := range Routes(t) {
		documented[route.Path] = true
		slashed := "x%2F"
		if strings.HasPrefix(route.Path, "/novels/") {
			slashed = "x-" // such an address is no page
		}
		request := Request{
			Method: route.Method, Path: strings.NewReplacer("{", slashed, "}", "").Replace(route.Path),
		}
		request.Bearer = "none"
		if response := s.Send(t, request); response.Status == http.StatusOK && routeClasses[route.String()].class != forAll {
			t.Errorf("%s is 200 without a key", route)
		}
	}
	_, metrics := Get(t, s.OpsURL+"/metrics")
	seen := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^novelgate_http_request[^\n]*\broute="([^"]*)"`).FindAllStringSubmatch(
		metrics, -1) {
		seen[found[1]] = true
	}
	for route := range seen {
		if !documented[route] && route != "unmatched" {
			t.Errorf("route %q is no path of docs/openapi.yaml", route)
		}
	}
	if delivery := "/api/integrations/deliveries/{idempotencyKey}"; !seen[delivery] {
		t.Errorf("no metric of %s, only of %v", delivery, seen)
	}
}
