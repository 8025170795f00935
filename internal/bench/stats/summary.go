package stats

import "slices"

// Summary of a few values.
type Summary struct {
	Median, Min, Max float64
}

// Summarise returns the zero Summary for no values. The median of an even number of values is the mean of the middle
// two.
func Summarise(values []float64) Summary {
	if len(values) == 0 {
		return Summary{}
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	median := sorted[middle]
	if len(sorted)%2 == 0 {
		median = (sorted[middle-1] + sorted[middle]) / 2
	}
	return Summary{Median: median, Min: sorted[0], Max: sorted[len(sorted)-1]}
}

// Ratios divides pair by pair. Pairs without a ratio, those with a zero divisor, are left out.
func Ratios(dividends, divisors []float64) []float64 {
	ratios := make([]float64, 0, len(dividends))
	for i, divisor := range divisors {
		if divisor != 0 {
			ratios = append(ratios, dividends[i]/divisor)
		}
	}
	return ratios
}
