package contest

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"novelgate/internal/bench/stats"
)

// row is a line of the table: what it shows of a round.
type row struct {
	name   string
	format string
	value  func(Figures) float64
}

func inMilliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }

func inMicroseconds(d time.Duration) float64 { return d.Seconds() * 1e6 }

var rows = []row{
	{"accepted comments/s", "%.0f", func(f Figures) float64 { return f.PerSecond }},
	{"p50, ms", "%.2f", func(f Figures) float64 { return inMilliseconds(f.P50) }},
	{"p99, ms", "%.2f", func(f Figures) float64 { return inMilliseconds(f.P99) }},
	{"CPU per comment, µs: service", "%.1f", func(f Figures) float64 { return inMicroseconds(f.Service) }},
	{"CPU per comment, µs: database", "%.1f", func(f Figures) float64 { return inMicroseconds(f.Database) }},
	{"CPU per comment, µs: sum", "%.1f", func(f Figures) float64 { return inMicroseconds(f.Service + f.Database) }},
	{"CPU per comment, µs: load generator", "%.1f", func(f Figures) float64 { return inMicroseconds(f.Generator) }},
	{"caught up after, ms", "%.0f", func(f Figures) float64 { return inMilliseconds(f.CatchUp) }},
	{"noise: processors busy elsewhere", "%.2f", func(f Figures) float64 { return f.Others }},
}

// Write prints the duel: the median of each figure for both, and what became of the ratio A/B in the single pairs.
func (d *Duel) Write(w io.Writer) error {
	fmt.Fprintf(w, "\nConnections: %d; %d pairs of %v\n", d.Connections, len(d.OfA), d.Duration)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "median of\t%s\t%s\tratio\tmin\tmax\t\n", d.A.Name, d.B.Name)
	for _, r := range rows {
		a, b := column(d.OfA, r.value), column(d.OfB, r.value)
		fmt.Fprintf(table, "%s\t"+r.format+"\t"+r.format+"\t", r.name, stats.Summarise(a).Median, stats.Summarise(b).Median)
		if ratios := stats.Ratios(a, b); len(ratios) == len(a) {
			ratio := stats.Summarise(ratios)
			fmt.Fprintf(table, "%.2f\t%.2f\t%.2f\t\n", ratio.Median, ratio.Min, ratio.Max)
		} else {
			fmt.Fprint(table, "\t\t\t\n")
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print table: %w", err)
	}
	writeFailures(w, d.A.Name, d.OfA)
	writeFailures(w, d.B.Name, d.OfB)
	return nil
}

// WriteMedians prints the medians of one contestant in one line; CPU is that of its service and its database, per comment.
func WriteMedians(w io.Writer, name string, rounds []Figures) {
	median := func(value func(Figures) float64) float64 { return stats.Summarise(column(rounds, value)).Median }
	fmt.Fprintf(w, "%-18s %8.0f/s   p50 %7.2f ms   p99 %7.2f ms   CPU %6.1f + %6.1f µs   noise %.2f\n", name,
		median(rows[0].value), median(rows[1].value), median(rows[2].value), median(rows[3].value), median(rows[4].value),
		median(func(f Figures) float64 { return f.Others }))
	writeFailures(w, name, rounds)
}

func writeFailures(w io.Writer, name string, rounds []Figures) {
	failed := map[string]int{}
	for _, f := range rounds {
		for what, n := range f.Failed {
			failed[what] += n
		}
	}
	for _, what := range slices.Sorted(maps.Keys(failed)) {
		fmt.Fprintf(w, "%s FAILED: %d × %s\n", name, failed[what], what)
	}
}

func column(rounds []Figures, value func(Figures) float64) []float64 {
	values := make([]float64, len(rounds))
	for i, f := range rounds {
		values[i] = value(f)
	}
	return values
}
