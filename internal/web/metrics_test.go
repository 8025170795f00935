package web_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"

	"novelgate/internal/web"
)

// series returns the counters by name and labels.
func series(t testing.TB, metrics *web.Metrics) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				if label.GetValue() != "" {
					name += " " + label.GetName() + "=" + label.GetValue()
				}
			}
			found[name] = metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return found
}

// TestBrokenAnswersAreCounted: an aborted stream ends by a panic after its status was sent. The panic is passed on to
// the server.
func TestBrokenAnswersAreCounted(t *testing.T) {
	t.Parallel()
	metrics := web.NewMetrics()
	kit := &web.Kit{Metrics: metrics}
	router := mux.NewRouter()
	router.HandleFunc("/stream", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		panic(http.ErrAbortHandler)
	})
	func() {
		defer func() {
			if got := recover(); got != http.ErrAbortHandler { //nolint:errorlint // it is panicked with as it is
				t.Errorf("the server gets %v", got)
			}
		}()
		r := httptest.NewRequest(http.MethodGet, "/stream", http.NoBody)
		kit.Handler(router, nil).ServeHTTP(httptest.NewRecorder(), r)
	}()
	found := series(t, metrics)
	for _, name := range []string{"novelgate_http_requests_total", "novelgate_http_request_seconds"} {
		if found[name+" method=GET route=/stream status=aborted"] != 1 {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// TestStreamsAreNotTimed: the duration of a stream depends on the client.
func TestStreamsAreNotTimed(t *testing.T) {
	t.Parallel()
	metrics := web.NewMetrics()
	kit := &web.Kit{Metrics: metrics}
	router := mux.NewRouter()
	router.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "application/x-ndjson")
		}
	})
	for _, method := range []string{http.MethodGet, http.MethodHead, "BREW", "PROPFIND"} {
		kit.Handler(router, nil).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, "/events", http.NoBody))
	}
	want := map[string]float64{
		"novelgate_http_requests_total method=GET route=/events status=200":    1,
		"novelgate_http_requests_total method=HEAD route=/events status=200":   1,
		"novelgate_http_requests_total method=other route=/events status=200":  2,
		"novelgate_http_request_seconds method=HEAD route=/events status=200":  1,
		"novelgate_http_request_seconds method=other route=/events status=200": 2,
	}
	if diff := cmp.Diff(want, series(t, metrics)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
