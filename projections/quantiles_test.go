package projections_test

import (
	"slices"
	"testing"
	"time"
)

// reportQuantiles adds the median and the upper percentiles to a benchmark's result.
func reportQuantiles(b *testing.B, samples []time.Duration) {
	b.Helper()
	slices.Sort(samples)
	b.ReportMetric(float64(samples[len(samples)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(samples[len(samples)*9/10].Microseconds()), "p90-µs")
	b.ReportMetric(float64(samples[len(samples)*99/100].Microseconds()), "p99-µs")
}
