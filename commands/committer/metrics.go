package committer

import (
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of a Committer.
type Metrics struct {
	batchSize      prometheus.Histogram
	commitSeconds  prometheus.Histogram
	bisections     prometheus.Counter
	appendedEvents *prometheus.CounterVec
	appendedBytes  *prometheus.CounterVec
}

// NewMetrics returns the metrics. The caller registers them.
func NewMetrics() *Metrics {
	perIntegration := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"integration"})
	}
	return &Metrics{
		batchSize: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "novelgate_committer_batch_commands", Help: "Commands in a batch.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 10),
		}),
		commitSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "novelgate_committer_commit_seconds", Help: "Time of the append and the commit of a batch.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 13),
		}),
		bisections: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "novelgate_committer_bisections_total", Help: "Batches split because a command failed or met a lock.",
		}),
		appendedEvents: perIntegration("novelgate_log_events_total",
			"Events that this replica has appended to the log for an integration."),
		appendedBytes: perIntegration("novelgate_log_bytes_total",
			"Approximate bytes of these events: data, personal data, and 450 bytes for the rest of a row."),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, ch) }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, metric := range []prometheus.Collector{
		m.batchSize, m.commitSeconds, m.bisections, m.appendedEvents, m.appendedBytes,
	} {
		metric.Collect(ch)
	}
}

// countAppended counts the events of a committed attempt by integration. The label has few values, because only staff
// register integrations. An attempt whose answer was lost is not counted.
func (m *Metrics) countAppended(st *state) {
	type size struct{ events, bytes int }
	appended := map[uuid.UUID]size{}
	for i, integration := range st.senders {
		s := appended[integration]
		appended[integration] = size{s.events + 1, s.bytes + st.bytes[i]}
	}
	for integration, s := range appended {
		m.appendedEvents.WithLabelValues(integration.String()).Add(float64(s.events))
		m.appendedBytes.WithLabelValues(integration.String()).Add(float64(s.bytes))
	}
}
