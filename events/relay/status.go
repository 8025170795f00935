package relay

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"novelgate/internal/database"
)

// Lag is the lag of the main stream behind the log.
type Lag struct {
	Size    int64   `json:"size"`       // events in the log
	Events  int64   `json:"lagEvents"`  // events that the stream does not have
	Seconds float64 `json:"lagSeconds"` // age of the oldest of these; 0 when there are none
}

// lagSQL reads the number of events, and the age of the event with a log index in seconds; 0 if the log does not have
// it. $1: log index.
const lagSQL = `SELECT coalesce(max(log_index) + 1, 0), coalesce((
    SELECT greatest(extract(epoch FROM statement_timestamp() - recorded_at), 0)::double precision
    FROM events WHERE log_index = $1), 0)
FROM events`

// readLag reads the lag of a main stream with relayed messages.
func readLag(ctx context.Context, db database.Querier, relayed int64) (lag Lag, err error) {
	if err := db.QueryRow(ctx, lagSQL, relayed).Scan(&lag.Size, &lag.Seconds); err != nil {
		return Lag{}, fmt.Errorf("read the lag of the relay: %w", err)
	}
	lag.Events = max(0, lag.Size-relayed)
	return lag, nil
}

// Status is the status of the streams of the current origin.
type Status struct {
	Origin         string `json:"origin"`
	Stream         string `json:"stream"`
	PersonalStream string `json:"personalStream"`
	Replicas       int    `json:"replicas"`
	Relayed        int64  `json:"relayed"`  // events in the main stream
	Personal       int64  `json:"personal"` // events in the personal stream, erased ones included
	Erased         int    `json:"erased"`   // deleted messages of the personal stream
	Lag
}

// originsSQL reads the origins of the ledger, the current one first.
const originsSQL = `SELECT ARRAY (SELECT origin FROM ledger_origins ORDER BY ordinal DESC)`

// ReadStatus reads the status from the database and NATS.
func ReadStatus(ctx context.Context, conn *nats.Conn, db database.Querier) (Status, error) {
	var origins []string
	if err := db.QueryRow(ctx, originsSQL).Scan(&origins); err != nil {
		return Status{}, fmt.Errorf("read the origins of the ledger: %w", err)
	}
	if len(origins) == 0 {
		return Status{}, errNoOrigin
	}
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(natsTimeout))
	if err != nil {
		return Status{}, fmt.Errorf("use JetStream: %w", err)
	}
	s := Status{Origin: origins[0], Stream: StreamName(origins[0]), PersonalStream: PersonalStreamName(origins[0])}
	for _, name := range []string{s.Stream, s.PersonalStream} {
		found, err := js.Stream(ctx, name)
		if err != nil {
			return Status{}, fmt.Errorf("open stream %s: %w", name, err)
		}
		info := found.CachedInfo()
		if name == s.PersonalStream {
			s.Personal, s.Erased = int64(info.State.LastSeq), info.State.NumDeleted //nolint:gosec // a sequence
			continue
		}
		s.Relayed, s.Replicas = int64(info.State.LastSeq), info.Config.Replicas //nolint:gosec // a sequence
	}
	s.Lag, err = readLag(ctx, db, s.Relayed)
	return s, err
}

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
	cache := database.NewScrapeCache(clock, func(ctx context.Context) (Lag, error) {
		return readLag(ctx, db, m.relayed.Load())
	})
	gauge := func(name, help string, value func(Lag) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			lag, err := cache.Get()
			switch {
			case m.relayed.Load() < 0:
				return 0
			case err != nil:
				return math.NaN()
			}
			return value(lag)
		})
	}
	m.MustRegister(
		gauge("novelgate_relay_lag_events", "Events that the stream does not have.",
			func(lag Lag) float64 { return float64(lag.Events) }),
		gauge("novelgate_relay_lag_seconds", "Age of the oldest event that the stream does not have.",
			func(lag Lag) float64 { return lag.Seconds }),
	)
}
