package httpkit

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"novelgate/internal/problem"
)

// receiveTime is the time for a client to receive an answer, in addition to the timeout for making it. Half a megabyte
// in this time needs 400 kbit/s.
const receiveTime = 10 * time.Second

// ReadLimit limits the requests in progress of an audience, and how many of their answers are made at the same time. A
// request is in progress until its last byte is sent, because a slow client keeps a page in memory. Create it with
// NewReadLimit.
type ReadLimit struct {
	slots   chan struct{} // one for each request, until its last byte is sent
	making  chan struct{} // one for each answer that is being made
	timeout time.Duration
	refused prometheus.Counter
	current prometheus.GaugeFunc
}

// NewReadLimit returns a ReadLimit for an audience, which is a label of its metrics. requests is the limit of requests
// in progress. answers is the limit of answers that are made at the same time; 0: half of the processors, rounded up.
// timeout is the time for making an answer; receiveTime later, a client without its whole answer is disconnected.
func NewReadLimit(audience string, requests, answers int, timeout time.Duration) *ReadLimit {
	answers = cmp.Or(answers, (runtime.GOMAXPROCS(0)+1)/2)
	r := &ReadLimit{slots: make(chan struct{}, requests), making: make(chan struct{}, answers), timeout: timeout}
	labels := prometheus.Labels{"audience": audience}
	r.refused = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "novelgate_readers_refused_total", ConstLabels: labels,
		Help: "Requests of readers that were refused with 503 because too many were in progress.",
	})
	r.current = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "novelgate_readers", ConstLabels: labels,
		Help: "Requests of readers in progress, until the client has received the answer.",
	}, func() float64 { return float64(len(r.slots)) })
	return r
}

// Describe implements prometheus.Collector.
func (r *ReadLimit) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(r, ch) }

// Collect implements prometheus.Collector.
func (r *ReadLimit) Collect(ch chan<- prometheus.Metric) {
	r.refused.Collect(ch)
	r.current.Collect(ch)
}

// errBusy refuses a reader above the limit.
var errBusy = problem.Unavailable(RetryAfter).WithDetail(
	"Too many readers are being answered. Repeat the request after the time in Retry-After.")

// Limit returns a handler that calls next, or refuse while the limit is reached. A refusal closes the connection, which
// drops pipelined requests: 800 clients with 60 pipelined requests each delayed a comment of another client by 4 s on a
// busy machine. A nil ReadLimit does not limit.
func (r *ReadLimit) Limit(next http.Handler, refuse Refusal) http.Handler {
	if r == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		select {
		case r.slots <- struct{}{}:
			defer func() { <-r.slots }()
		default:
			r.refused.Inc()
			w.Header().Set("Connection", "close")
			refuse(w, request, errBusy)
			return
		}
		// Disconnect a client that does not receive the answer. A writer without deadlines (a recorder in a test) is never
		// slow.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(r.timeout + receiveTime)) //nolint:forbidigo // the clock of the connection
		next.ServeHTTP(w, request)
	})
}

// Make waits until fewer answers than the limit are being made, and then calls answer. It fails if ctx ends while it
// waits. Making an answer takes several times its memory: without this limit, 64 concurrent large pages took all the
// memory that the garbage collector allows, and commands waited for seconds.
func (r *ReadLimit) Make(ctx context.Context, answer func() error) error {
	if r == nil {
		return answer()
	}
	select {
	case r.making <- struct{}{}:
		defer func() { <-r.making }()
		return answer()
	case <-ctx.Done():
		return fmt.Errorf("wait for other answers: %w", ctx.Err())
	}
}
