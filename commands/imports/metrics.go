package imports

import "github.com/prometheus/client_golang/prometheus"

// Metrics are what a worker counts.
type Metrics struct{ lines *prometheus.CounterVec }

// NewMetrics returns metrics at zero.
func NewMetrics() *Metrics {
	return &Metrics{lines: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "novelgate_import_lines_total", Help: "Lines of bulk imports by outcome.",
	}, []string{"outcome"})}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) { m.lines.Describe(ch) }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) { m.lines.Collect(ch) }
