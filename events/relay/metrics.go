package relay

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"novelgate/internal/database"
)

// lag is the lag of the main stream behind the log.
type lag struct {
	events  int64   // that the stream does not have
	seconds float64 // age of the oldest of these; 0 when there are none
}

// lagSQL reads the number of events, and the age of the event with a log index in seconds; 0 if the log does not have
// it. $1: log index.
const lagSQL = `SELECT coalesce(max(log_index) + 1, 0), coalesce((
    SELECT greatest(extract(epoch FROM statement_timestamp() - recorded_at), 0)::double precision
    FROM events WHERE log_index = $1), 0)
FROM events`

// Metrics are the metrics of a Relay, a registry that can itself be registered.
type Metrics struct {
	*prometheus.Registry

	active   prometheus.Gauge
	refused  prometheus.Gauge
	events   prometheus.Counter
	erasures prometheus.Counter
	relayed  atomic.Int64 // events in the main stream; of a refused stream, those before the first difference; -1: unknown
}

// NewMetrics returns unregistered metrics.
func NewMetrics() *Metrics {
	m := &Metrics{
		Registry: prometheus.NewRegistry(),
		active: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "novelgate_relay_active", Help: "1 while this process relays; 0 while it stands by or tries again.",
		}),
		refused: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "novelgate_relay_refused",
			Help: "1 since this process refused to continue the streams; the log says why.",
		}),
		events: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "novelgate_relay_events_total", Help: "Events that this process has published.",
		}),
		erasures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "novelgate_relay_erasures_total", Help: "Messages that this process has erased from the personal stream.",
		}),
	}
	m.relayed.Store(-1)
	m.MustRegister(m.active, m.refused, m.events, m.erasures)
	return m
}

// published counts published events, and sets the number of events in the main stream.
func (m *Metrics) published(count int, relayed int64) {
	m.events.Add(float64(count))
	m.relayed.Store(relayed)
}

// AddLag registers the lag, which scrapes read from a database. It is 0 in a process that stands by, and NaN if reading
// it fails.
func (m *Metrics) AddLag(db database.Querier, clock func() time.Time) {
	cache := database.NewScrapeCache(clock, func(ctx context.Context) (read lag, err error) {
		relayed := m.relayed.Load()
		err = db.QueryRow(ctx, lagSQL, relayed).Scan(&read.events, &read.seconds)
		read.events = max(0, read.events-relayed)
		return read, err
	})
	gauge := func(name, help string, value func(lag) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			read, err := cache.Get()
			switch {
			case m.relayed.Load() < 0:
				return 0
			case err != nil:
				return math.NaN()
			}
			return value(read)
		})
	}
	m.MustRegister(
		gauge("novelgate_relay_lag_events", "Events that the stream does not have.",
			func(l lag) float64 { return float64(l.events) }),
		gauge("novelgate_relay_lag_seconds", "Age of the oldest event that the stream does not have.",
			func(l lag) float64 { return l.seconds }),
	)
}
