package httpkit

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of requests. Labels have few values: routes are templates, codes come from package problem.
type Metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

// NewMetrics returns unregistered metrics.
func NewMetrics() *Metrics {
	return &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "novelgate_http_requests_total",
			Help: "Answered requests by route, method (other for unknown ones), status (aborted when the answer broke off) " +
				"and error code (empty when there was no error).",
		}, []string{"route", "method", "status", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "novelgate_http_request_seconds",
			Help: "Time from receiving a request's header to the end of its answer, by route, method and status. " +
				"Streams are left out: they last as long as their clients want.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 13),
		}, []string{"route", "method", "status"}),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, ch) }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.requests.Collect(ch)
	m.seconds.Collect(ch)
}

// statusRecorder records the status of an answer.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (s *statusRecorder) WriteHeader(status int) {
	if s.status == 0 {
		s.status = status
	}
	s.ResponseWriter.WriteHeader(status)
}

// streamed reports whether the answer was a stream of lines.
func (s *statusRecorder) streamed() bool { return s.Header().Get("Content-Type") == LineMediaType }

// Unwrap lets http.ResponseController reach the connection.
func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// aborted is the status in the metrics of an aborted answer: its handler panicked with http.ErrAbortHandler, so that
// the client notices that the answer is incomplete. The sent status was 200.
const aborted = "aborted"

// Middleware counts and times requests, also when their handlers panic.
func (m *Metrics) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now() //nolint:forbidigo // a duration for a metric
		recorder := &statusRecorder{ResponseWriter: w}
		status := aborted
		defer func() { //nolint:contextcheck // the request has the context
			route, method := routeOf(r), methodName(r)
			m.requests.WithLabelValues(route, method, status, string(infoOf(r.Context()).code)).Inc()
			if !recorder.streamed() {
				m.seconds.WithLabelValues(route, method, status).Observe(time.Since(start).Seconds())
			}
		}()
		next.ServeHTTP(recorder, r)
		status = strconv.Itoa(cmp.Or(recorder.status, http.StatusOK))
	})
}

// methodName returns the method of a request, or "other" for an unknown one, because clients may send any.
func methodName(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions:
		return r.Method
	default:
		return "other"
	}
}
