package blackbox_test

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"novelgate/internal/blackbox"
)

func TestHealthOnBothListeners(t *testing.T) {
	t.Parallel()
	s := blackbox.Shared(t)
	for _, path := range []string{"/healthz", "/readyz"} {
		if response := s.Send(t, blackbox.Request{Method: http.MethodGet, Path: path}); response.Status != http.StatusOK {
			t.Errorf("%s is %d, want 200", path, response.Status)
		}
		if status, _ := get(t, s.OpsURL+path); status != http.StatusOK {
			t.Errorf("%s on the operations listener is %d, want 200", path, status)
		}
	}
}

func TestMetricsAndProfilesStayOnTheOperationsListener(t *testing.T) {
	t.Parallel()
	s := blackbox.Shared(t)
	if status, body := get(t, s.OpsURL+"/metrics"); status != http.StatusOK || !strings.Contains(body, "go_goroutines") {
		t.Errorf("/metrics is %d, want 200 with metrics of the Go runtime\n%.500s", status, body)
	}
	if status, _ := get(t, s.OpsURL+"/debug/pprof/"); status != http.StatusOK {
		t.Errorf("/debug/pprof/ is %d, want 200", status)
	}
	for _, path := range []string{"/metrics", "/debug/pprof/"} {
		s.Send(t, blackbox.Request{Method: http.MethodGet, Path: path}).WantProblem(t, 404, "not_found")
	}
}

// TestRouteLabelsAreDocumentedPaths reads the labels after requests to every route, and to one with a key that has
// slashes.
func TestRouteLabelsAreDocumentedPaths(t *testing.T) {
	t.Parallel()
	s := blackbox.Shared(t)
	documented := map[string]bool{}
	for _, route := range blackbox.Routes(t) {
		documented[route.Path] = true
		slashed := "x%2F"
		if strings.HasPrefix(route.Path, "/novels/") {
			slashed = "x-" // such an address is no page
		}
		request := blackbox.Request{
			Method: route.Method, Path: strings.NewReplacer("{", slashed, "}", "").Replace(route.Path),
		}
		request.Bearer = "none"
		if response := s.Send(t, request); response.Status == http.StatusOK && routeClasses[route.String()].class != public {
			t.Errorf("%s is 200 without a key", route)
		}
	}
	_, metrics := get(t, s.OpsURL+"/metrics")
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

// get fetches what docs/openapi.yaml does not describe.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatalf("make request: %v", err)
	}
	request.Close = true // leaves no idle connection behind
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatalf("get %s: %v", url, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("read %s: %v", url, err)
	}
	return response.StatusCode, string(body)
}
