package httpkit

import (
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"novelgate/internal/problem"
)

// takeTime is how long a reader may take for an answer, behind the time in which the service makes it. Half a megabyte
// in that time is a connection of 400 kbit/s.
const takeTime = 10 * time.Second

// Readers bounds how many requests of readers are answered at a time, until the last byte is on its way: a client that
// does not read holds a page in memory. Create it with NewReaders.
type Readers struct {
	slots     chan struct{}
	rendering chan struct{}
	timeout   time.Duration
	refused   prometheus.Counter
	current   prometheus.GaugeFunc
}

// NewReaders returns Readers that answer so many requests at a time. Each is made within the timeout, and taken by the
// client within ten seconds more.
func NewReaders(most int, timeout time.Duration) *Readers {
	r := &Readers{
		slots: make(chan struct{}, most), rendering: make(chan struct{}, (runtime.GOMAXPROCS(0)+1)/2), timeout: timeout,
	}
	r.refused = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "novelgate_readers_refused_total",
		Help: "Requests of readers that were refused with 503 because as many as may be were being answered.",
	})
	r.current = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "novelgate_readers",
		Help: "Requests of readers that are being answered, until the client has taken the answer.",
	}, func() float64 { return float64(len(r.slots)) })
	return r
}

// Describe implements prometheus.Collector.
func (r *Readers) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(r, ch) }

// Collect implements prometheus.Collector.
func (r *Readers) Collect(ch chan<- prometheus.Metric) {
	r.refused.Collect(ch)
	r.current.Collect(ch)
}

// errBusy tells a reader that there are too many.
var errBusy = problem.Unavailable(time.Second).WithDetail(
	"Too many readers are being answered. Repeat the request after the time in Retry-After.")

// Limit lets next answer while there is room, and refuse otherwise. Without Readers there is no limit.
func (r *Readers) Limit(next http.Handler, refuse Refusal) http.Handler {
	if r == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		select {
		case r.slots <- struct{}{}:
			defer func() { <-r.slots }()
		default:
			r.refused.Inc()
			refuse(w, request, errBusy)
			return
		}
		// Whoever does not take the answer is cut off. What does not support that (a recorder in a test) is not slow either.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(r.timeout + takeTime)) //nolint:forbidigo // the clock of the connection
		next.ServeHTTP(w, request)
	})
}

// render lets a function run, on half of the processors at a time: it does not wait for anything, and takes several
// times the memory of the answer. Without that bound 64 large pages at once took all that the collector allows, and
// commands waited for seconds.
func (r *Readers) render(render func() error) error {
	if r != nil {
		r.rendering <- struct{}{}
		defer func() { <-r.rendering }()
	}
	return render()
}
