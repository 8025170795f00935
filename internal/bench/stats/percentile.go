// Package stats computes what the benchmark prints.
package stats

import (
	"math"
	"time"
)

// Percentile returns the smallest sample that at least p percent of the samples do not exceed (nearest rank). The
// samples must be sorted ascending; without any it is 0. p is above 0 and at most 100.
func Percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	// Sparing a hair keeps an exact rank such as 99 % of 100 from being rounded up to the next.
	rank := int(math.Ceil(p/100*float64(len(sorted)) - 1e-9))
	return sorted[min(max(rank, 1), len(sorted))-1]
}
