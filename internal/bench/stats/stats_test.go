package stats_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"novelgate/internal/bench/stats"
)

func upTo(n int) []time.Duration {
	samples := make([]time.Duration, n)
	for i := range samples {
		samples[i] = time.Duration(i + 1)
	}
	return samples
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		samples []time.Duration
		p       float64
		want    time.Duration
	}{
		{"none", nil, 50, 0},
		{"one", upTo(1), 99, 1},
		{"median of two is the lower", upTo(2), 50, 1},
		{"median of three", upTo(3), 50, 2},
		{"exact rank", upTo(100), 99, 99},
		{"next rank", upTo(101), 99, 100},
		{"99.9 of a thousand", upTo(1000), 99.9, 999},
		{"all", upTo(10), 100, 10},
		{"next to nothing", upTo(10), 0.001, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := stats.Percentile(test.samples, test.p); got != test.want {
				t.Errorf("Percentile(%v) = %d, want %d", test.p, got, test.want)
			}
		})
	}
}

func TestSummarise(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		values []float64
		want   stats.Summary
	}{
		{"none", nil, stats.Summary{}},
		{"one", []float64{7}, stats.Summary{Median: 7, Min: 7, Max: 7}},
		{"odd, unsorted", []float64{9, 1, 4}, stats.Summary{Median: 4, Min: 1, Max: 9}},
		{"even", []float64{4, 1, 2, 9}, stats.Summary{Median: 3, Min: 1, Max: 9}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, stats.Summarise(test.values)); diff != "" {
				t.Errorf("Summarise (-want +got)\n%s", diff)
			}
		})
	}
}

// The median of the ratios is not the ratio of the medians: a pair shares its moment's noise.
func TestRatiosArePerPair(t *testing.T) {
	t.Parallel()
	got := stats.Ratios([]float64{10, 3, 8, 5}, []float64{5, 1, 2, 0})
	if diff := cmp.Diff([]float64{2, 3, 4}, got); diff != "" {
		t.Errorf("Ratios (-want +got)\n%s", diff)
	}
}

func TestSummariseLeavesItsInputAlone(t *testing.T) {
	t.Parallel()
	values := []float64{3, 1, 2}
	stats.Summarise(values)
	if diff := cmp.Diff([]float64{3, 1, 2}, values); diff != "" {
		t.Errorf("the values were changed (-want +got)\n%s", diff)
	}
}
