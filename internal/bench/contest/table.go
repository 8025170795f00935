package contest

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"novelgate/internal/bench/stats"
)

func perSecond(f Figures) float64 { return f.PerSecond }
func p50(f Figures) float64       { return f.P50.Seconds() * 1e3 }     // ms
func p99(f Figures) float64       { return f.P99.Seconds() * 1e3 }     // ms
func service(f Figures) float64   { return f.Service.Seconds() * 1e6 } // µs, as the next three
func database(f Figures) float64  { return f.Database.Seconds() * 1e6 }
func both(f Figures) float64      { return (f.Service + f.Database).Seconds() * 1e6 }
func generator(f Figures) float64 { return f.Generator.Seconds() * 1e6 }
func catchUp(f Figures) float64   { return f.CatchUp.Seconds() * 1e3 } // ms
func others(f Figures) float64    { return f.Others }

// rows are the lines of a table.
var rows = []struct {
	name   string
	format string
	value  func(Figures) float64
	ratio  bool // of the two means something
}{
	{"accepted comments/s", "%.0f", perSecond, true},
	{"p50, ms", "%.2f", p50, true},
	{"p99, ms", "%.2f", p99, true},
	{"CPU per comment, µs: service", "%.1f", service, true},
	{"CPU per comment, µs: database", "%.1f", database, true},
	{"CPU per comment, µs: sum", "%.1f", both, true},
	{"CPU per comment, µs: load generator", "%.1f", generator, false},
	{"caught up after, ms", "%.0f", catchUp, false},
	{"noise: processors busy elsewhere", "%.2f", others, false},
}

// Table shows the duel: the median of each figure for both, and what became of the ratio A/B in the single pairs.
func (d *Duel) Table() (string, error) {
	var text strings.Builder
	fmt.Fprintf(&text, "median of\t%s\t%s\tratio\tmin\tmax\t\n", d.A.Name, d.B.Name)
	for _, r := range rows {
		a, b := column(d.OfA, r.value), column(d.OfB, r.value)
		fmt.Fprintf(&text, "%s\t"+r.format+"\t"+r.format+"\t", r.name, stats.Summarise(a).Median, stats.Summarise(b).Median)
		if ratios := stats.Ratios(a, b); r.ratio && len(ratios) == len(a) {
			ratio := stats.Summarise(ratios)
			fmt.Fprintf(&text, "%.2f\t%.2f\t%.2f\t\n", ratio.Median, ratio.Min, ratio.Max)
		} else {
			text.WriteString("\t\t\t\n")
		}
	}
	table, err := align(text.String())
	if err != nil {
		return "", err
	}
	title := fmt.Sprintf("\nConnections: %d; %d pairs of %v\n", d.Connections, len(d.OfA), d.Duration)
	return title + table + failures(d.A.Name, d.OfA) + failures(d.B.Name, d.OfB), nil
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

// Medians shows the medians of one contestant in one line; CPU is that of its service and its database, per comment.
func Medians(name string, rounds []Figures) string {
	median := func(value func(Figures) float64) float64 { return stats.Summarise(column(rounds, value)).Median }
	return fmt.Sprintf("%-18s %8.0f/s   p50 %7.2f ms   p99 %7.2f ms   CPU %6.1f + %6.1f µs   noise %.2f\n", name,
		median(perSecond), median(p50), median(p99), median(service), median(database),
		median(others)) + failures(name, rounds)
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
