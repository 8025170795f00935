package web

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"

	"novelgate/internal/problem"
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

// info is what the handlers of a request share with the wrapper.
type info struct {
	id    string
	route string       // as in docs/openapi.yaml, or "unmatched"
	code  problem.Code // of the error in the answer
}

type infoKey struct{}

// infoOf returns the info of a request; an empty one outside of Handler.
func infoOf(ctx context.Context) *info {
	if known, ok := ctx.Value(infoKey{}).(*info); ok {
		return known
	}
	return &info{}
}

// RequestID returns the id of the request with this context.
func RequestID(ctx context.Context) string { return infoOf(ctx).id }

// maxRequestID is the maximum length of an accepted X-Request-Id, in bytes.
const maxRequestID = 128

// recorder records the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

func (s *recorder) WriteHeader(status int) {
	s.status = cmp.Or(s.status, status)
	s.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the connection.
func (s *recorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Handler is the wrapper of all routes. It gives a request its id (the client's own X-Request-Id if that is 1 to 128
// visible ASCII characters), finds the route, counts and times the request, and answers with 500 when an operation
// panics. missing answers requests for unknown paths; nil: NotFound. A wrong method is 405 with the right ones.
func (k *Kit) Handler(router *mux.Router, missing http.Handler) http.Handler {
	if missing == nil {
		missing = http.HandlerFunc(k.NotFound)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now() //nolint:forbidigo // a duration for a metric
		in := &info{id: r.Header.Get("X-Request-Id"), route: "unmatched"}
		notVisible := func(c rune) bool { return c <= ' ' || c > '~' }
		if in.id == "" || len(in.id) > maxRequestID || strings.ContainsFunc(in.id, notVisible) {
			in.id = uuid.Must(uuid.NewV7()).String()
		}
		w.Header().Set("X-Request-Id", in.id)
		r = r.WithContext(context.WithValue(r.Context(), infoKey{}, in))
		answer := &recorder{ResponseWriter: w}
		defer k.end(answer, r, in, start)

		var match mux.RouteMatch
		sent := asSent(r)
		switch {
		case router.Match(sent, &match):
			if template, err := match.Route.GetPathTemplate(); err == nil {
				if in.route = template; strings.Contains(template, ":") {
					in.route = pattern.ReplaceAllString(template, "}")
				}
			}
			if len(match.Vars) > 0 {
				for name, value := range match.Vars {
					match.Vars[name], _ = url.PathUnescape(value) // cannot fail: the server has parsed the path
				}
				r = mux.SetURLVars(r, match.Vars)
			}
			match.Handler.ServeHTTP(answer, r)
		case errors.Is(match.MatchErr, mux.ErrMethodMismatch):
			k.Fail(answer, r, problem.MethodNotAllowed(methods(router, sent)...))
		default:
			missing.ServeHTTP(answer, r)
		}
	})
}

// asSent returns the request with the percent-encoding of its path, for the router. Only variables may be encoded, such
// as an identifier with a slash. In the fixed part, an encoding that the router ignores would lead past the rules of a
// proxy that compares paths as they are sent: /api%2Fadmin, /api/%61dmin.
func asSent(r *http.Request) *http.Request {
	path := sentPath(r)
	if path == r.URL.Path {
		return r
	}
	sent, address := r.WithContext(r.Context()), *r.URL
	address.Path, address.RawPath = path, ""
	sent.URL = &address
	return sent
}

// sentPath returns the path of a request as it was sent. EscapedPath does not if the path has a character that should
// be encoded: then it encodes the decoded path again.
func sentPath(r *http.Request) string { return cmp.Or(r.URL.RawPath, r.URL.EscapedPath()) }

// end counts a request whose handler has returned or panicked. A panic with http.ErrAbortHandler goes on: by it, a
// handler aborts a stream, so that its client notices that the answer is incomplete.
func (k *Kit) end(answer *recorder, r *http.Request, in *info, start time.Time) {
	cause := recover()
	status := "aborted"
	switch {
	case cause == nil:
		status = strconv.Itoa(cmp.Or(answer.status, http.StatusOK))
	case cause != http.ErrAbortHandler: //nolint:errorlint // handlers panic with it unwrapped
		k.Logger.ErrorContext(r.Context(), "a handler panicked", slog.String("requestId", in.id),
			slog.Any("cause", cause), slog.String("stack", string(debug.Stack())))
		in.code, status = problem.CodeInternal, strconv.Itoa(http.StatusInternalServerError)
		problem.Write(answer, in.id, problem.Internal(nil))
		cause = nil
	}
	method := r.Method
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions:
	default:
		method = "other" // clients may send any
	}
	if k.Answered != nil {
		k.Answered(r.Context(), in.id, method, in.route, string(in.code))
	}
	if k.Metrics != nil {
		k.Metrics.requests.WithLabelValues(in.route, method, status, string(in.code)).Inc()
		if answer.Header().Get("Content-Type") != LineMediaType {
			k.Metrics.seconds.WithLabelValues(in.route, method, status).Observe(time.Since(start).Seconds())
		}
	}
	if cause != nil {
		panic(cause)
	}
}

// NotFound answers a request for an unknown path.
func (k *Kit) NotFound(w http.ResponseWriter, r *http.Request) {
	p := problem.ErrNotFound
	if HasOddSeparator(r) {
		p = p.WithDetail(`There is nothing at this address. Separate the parts of its path with a single /, not with //, /./, ` +
			`/../, \, %2F or %5C.`)
	}
	k.Fail(w, r, p)
}

// HasOddSeparator reports whether the path of a request has what other programs, such as proxies, take for a slash.
func HasOddSeparator(r *http.Request) bool { return oddSeparator.MatchString(sentPath(r)) }

var oddSeparator = regexp.MustCompile(`(?i)%2f|%5c|\\|/(\.|%2e){0,2}/`)

// methods returns the methods of a path.
func methods(router *mux.Router, r *http.Request) (allowed []string) {
	for _, method := range []string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	} {
		other := r.Clone(r.Context())
		other.Method = method
		if match := new(mux.RouteMatch); router.Match(other, match) && match.MatchErr == nil {
			allowed = append(allowed, method)
		}
	}
	return allowed
}

// pattern is a pattern in a template of mux, as in {name:pattern}, with the brace after it.
var pattern = regexp.MustCompile(`:[^{}]*\}`)

// PathID returns a UUID in the path. The error is a *problem.Error.
func PathID(r *http.Request, name string) (uuid.UUID, error) {
	id, err := uuid.Parse(mux.Vars(r)[name])
	if err != nil {
		return uuid.Nil, problem.ErrNotFound.WithDetail("The " + name + " in the address is not a UUID.")
	}
	return id, nil
}
