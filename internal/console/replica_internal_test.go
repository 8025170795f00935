package console

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestReplica: the latency is that of commands since the samples before, and a quantile lies within its bucket.
func TestReplica(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "novelgate_http_request_seconds", Buckets: []float64{0.1, 0.2, 0.4},
	}, []string{"route", "method", "status"})
	registry.MustRegister(seconds)
	observe := func(route, method string, values ...float64) {
		for _, value := range values {
			seconds.WithLabelValues(route, method, "200").Observe(value)
		}
	}
	var s samples
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	observe("/api/integrations/posts", "POST", 0.3, 0.3, 0.3, 9)
	if err := s.add(registry, at); err != nil {
		t.Fatal(err)
	}
	observe("/api/integrations/posts", "POST", 0.05, 0.15)
	observe("/api/integrations/novels", "POST", 0.15, 0.15)
	observe("/api/integrations/posts", "GET", 9)
	observe("/novels/{slug}", "POST", 9)
	r, err := s.replica(registry, at.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	const summary = "Half within 133.3ms, 99 of 100 within 198.7ms, of 4 commands since 12:00 (UTC)"
	const newest = "198.7ms at most for 99 of 100 of 4 commands until 12:01:00"
	if c := r.Latency; c.Summary != summary || len(c.Bars) != minutes || c.Bars[minutes-1].Label != newest ||
		r.Slowest != 198700*time.Microsecond || r.Relay != nil || r.Signs {
		t.Errorf("%+v %v", r, c.Summary)
	}
}
