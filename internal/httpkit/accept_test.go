package httpkit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"novelgate/internal/httpkit"
)

func TestAccepts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		accept []string
		want   bool
	}{
		{nil, true},
		{[]string{""}, true},
		{[]string{"*/*"}, true},
		{[]string{"text/*"}, true},
		{[]string{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}, true}, // a browser
		{[]string{"TEXT/HTML; charset=utf-8"}, true},
		{[]string{"application/json", "text/html;q=0.1"}, true},
		{[]string{"application/json"}, false},
		{[]string{"application/json, application/problem+json"}, false},
		{[]string{"image/avif,image/webp"}, false},
		{[]string{"text/html;q=0"}, false},
		{[]string{"text/html; q=0.000, */*"}, false}, // the more specific range counts
		{[]string{"*/*, text/html;q=0"}, false},
		{[]string{"*/*;q=0, text/html"}, true},
		{[]string{"*/*;q=0"}, false},
		{[]string{"text/html;q=often"}, true},
		{[]string{"text/htmlx, text/plain"}, false},
		{[]string{"nonsense/", "a b c", ";;"}, false},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.Header["Accept"] = c.accept
		if got := httpkit.Accepts(r, "text/html"); got != c.want {
			t.Errorf("Accept %q: %v, want %v", c.accept, got, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		accept []string
		want   bool
	}{
		{nil, false},
		{[]string{"*/*"}, false},
		{[]string{"application/*"}, false},
		{[]string{"application/x-ndjson"}, true},
		{[]string{"application/json", "Application/X-NDJSON; q=0.5"}, true},
		{[]string{"*/*;q=0, application/x-ndjson"}, true},
		{[]string{"application/x-ndjson;q=0"}, false},
		{[]string{"application/x-ndjson;q=0.0, */*"}, false},
		{[]string{"application/json"}, false},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.Header["Accept"] = c.accept
		if got := httpkit.AcceptsByName(r, "application/x-ndjson"); got != c.want {
			t.Errorf("Accept %q: %v, want %v", c.accept, got, c.want)
		}
	}
}
