package contest

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

func perSecond(f Figures) float64 { return f.PerSecond }
func p50(f Figures) float64       { return f.P50.Seconds() * 1e3 } // ms
func p99(f Figures) float64       { return f.P99.Seconds() * 1e3 }
func service(f Figures) float64   { return f.Service.Seconds() * 1e6 } // µs
func database(f Figures) float64  { return f.Database.Seconds() * 1e6 }
func others(f Figures) float64    { return f.Others }

// rows are the lines of a table.
var rows = []struct {
	name   string
	format string
	value  func(Figures) float64
	ratio  bool // of the two means something
}{
	{"accepted/s", "%.0f", perSecond, true},
	{"p50, ms", "%.2f", p50, true},
	{"p99, ms", "%.2f", p99, true},
	{"CPU per request, µs: service", "%.1f", service, true},
	{"CPU per request, µs: database", "%.1f", database, true},
	{"CPU per request, µs: sum", "%.1f", func(f Figures) float64 { return service(f) + database(f) }, true},
	{"CPU per request, µs: load generator", "%.1f", func(f Figures) float64 { return f.Generator.Seconds() * 1e6 }, false},
	{"caught up after, ms", "%.0f", func(f Figures) float64 { return f.CatchUp.Seconds() * 1e3 }, false},
	{"bytes for a reader", "%.0f", func(f Figures) float64 { return float64(f.Bytes) }, false},
	{"noise: processors busy elsewhere", "%.2f", others, false},
}

// Table shows the rounds of two contestants: the median of each figure for both, and the median, least and most of the
// ratios first/second of the single rounds.
func Table(names [2]string, first, second []Figures) (string, error) {
	var text strings.Builder
	fmt.Fprintf(&text, "median of\t%s\t%s\tratio\tmin\tmax\t\n", names[0], names[1])
	for _, r := range rows {
		a, b := column(first, r.value), column(second, r.value)
		if slices.Max(a) == 0 && slices.Max(b) == 0 {
			continue
		}
		fmt.Fprintf(&text, "%s\t"+r.format+"\t"+r.format+"\t", r.name, Median(a), Median(b))
		if ratios := Ratios(a, b); r.ratio && len(ratios) == len(a) {
			fmt.Fprintf(&text, "%.2f\t%.2f\t%.2f\t\n", Median(ratios), slices.Min(ratios), slices.Max(ratios))
		} else {
			text.WriteString("\t\t\t\n")
		}
	}
	table, err := align(text.String())
	return table + failures(names[0], first) + failures(names[1], second), err
}

// align turns the cells of lines, each ended by a tab, into columns.
func align(cells string) (string, error) {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	if _, err := io.WriteString(table, cells); err != nil {
		return "", fmt.Errorf("align table: %w", err)
	}
	if err := table.Flush(); err != nil {
		return "", fmt.Errorf("align table: %w", err)
	}
	return text.String(), nil
}

// Line shows the figures of one round in one line; CPU is that of the service and its database, per request.
func Line(name string, f Figures) string {
	return fmt.Sprintf("%-18s %8.0f/s   p50 %7.2f ms   p99 %7.2f ms   CPU %6.1f + %6.1f µs   noise %.2f\n", name,
		perSecond(f), p50(f), p99(f), service(f), database(f), others(f)) + failures(name, []Figures{f})
}

func failures(name string, rounds []Figures) string {
	failed := map[string]int{}
	for _, f := range rounds {
		for what, n := range f.Failed {
			failed[what] += n
		}
	}
	var text strings.Builder
	for _, what := range slices.Sorted(maps.Keys(failed)) {
		fmt.Fprintf(&text, "%s FAILED: %d × %s\n", name, failed[what], what)
	}
	return text.String()
}

func column(rounds []Figures, value func(Figures) float64) []float64 {
	values := make([]float64, len(rounds))
	for i, f := range rounds {
		values[i] = value(f)
	}
	return values
}

// Median of an even number of values is the mean of the middle two; of none it is 0.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
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

// Percentile returns the smallest sample that at least p percent of the samples do not exceed (nearest rank), or 0
// without samples. They must be sorted.
func Percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(float64(p*len(sorted)) / 100))
	return sorted[max(rank, 1)-1]
}
