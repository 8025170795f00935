package committer

import "github.com/prometheus/client_golang/prometheus"

// Metrics of a Committer.
type Metrics struct {
	batchSize     prometheus.Histogram
	commitSeconds prometheus.Histogram
	conflicts     prometheus.Counter
	bisections    prometheus.Counter
	misjudged     prometheus.Counter
	outdated      prometheus.Counter
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
			Name: "novelgate_committer_conflicts_total", Help: "Transactions that another writer was faster than; they were decided again.",
		}),
		misjudged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "novelgate_committer_misjudged_total", Help: "Batches whose comments were presumed to be first deliveries and that were decided again because one was not, or might not have been.",
		}),
		outdated: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "novelgate_committer_outdated_total", Help: "Batches that were read after all because what their lane remembered had changed.",
		}),
		bisections: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "novelgate_committer_bisections_total", Help: "Batches that were cut in halves because one of their commands failed.",
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
}
