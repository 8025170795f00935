package committer

import (
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of a Committer.
type Metrics struct {
	batchSize     prometheus.Histogram
	commitSeconds prometheus.Histogram
	conflicts     prometheus.Counter
	bisections    prometheus.Counter
	misjudged     prometheus.Counter
	outdated      prometheus.Counter
	grownEvents   *prometheus.CounterVec
	grownBytes    *prometheus.CounterVec
}

// NewMetrics returns metrics that no registry knows yet.
func NewMetrics() *Metrics {
	return &Metrics{
		batchSize: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "novelgate_committer_batch_commands", Help: "Commands that were taken up together.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 10),
		}),
		commitSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "novelgate_committer_commit_seconds", Help: "Time from sending a transaction to its commit.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 13),
		}),
		conflicts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "novelgate_committer_conflicts_total",
			Help: "Transactions that another writer was faster than; they were decided again.",
		}),
		misjudged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "novelgate_committer_misjudged_total",
			Help: "Batches whose comments were presumed to be first deliveries and that were decided again because one was " +
				"not, or might not have been.",
		}),
		outdated: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "novelgate_committer_outdated_total",
			Help: "Batches that were read after all because what their lane remembered had changed.",
		}),
		grownEvents: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "novelgate_log_events_total", Help: "Events that this replica has appended to the log for an integration.",
		}, []string{"integration"}),
		grownBytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "novelgate_log_bytes_total", Help: "Bytes of those events: data, what is personal, and metadata.",
		}, []string{"integration"}),
		bisections: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "novelgate_committer_bisections_total",
			Help: "Batches that were cut in halves because one of their commands failed.",
		}),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, ch) }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.batchSize.Collect(ch)
	m.commitSeconds.Collect(ch)
	m.conflicts.Collect(ch)
	m.bisections.Collect(ch)
	m.misjudged.Collect(ch)
	m.outdated.Collect(ch)
	m.grownEvents.Collect(ch)
	m.grownBytes.Collect(ch)
}

// grew counts what a committed attempt has appended, by integration. There are as many of these as staff has
// registered. An attempt whose answer was lost is not counted.
func (m *Metrics) grew(st *state) {
	type growth struct{ events, bytes int }
	grown := map[uuid.UUID]growth{}
	for i, integration := range st.senders {
		g := grown[integration]
		grown[integration] = growth{g.events + 1, g.bytes + st.bytes[i]}
	}
	for integration, g := range grown {
		m.grownEvents.WithLabelValues(integration.String()).Add(float64(g.events))
		m.grownBytes.WithLabelValues(integration.String()).Add(float64(g.bytes))
	}
}
