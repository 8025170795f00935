package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/prometheus/procfs"
)

// figures are the results of one round of one contestant.
type figures struct {
	accepted  int
	perSecond float64
	p50, p99  time.Duration
	// Processor time per accepted comment, user and system, until the projections have caught up.
	service, database, generator time.Duration
	catchUp                      time.Duration  // from the last answer until the projections have caught up
	noise                        float64        // processors that other processes kept busy
	failed                       map[string]int // answers other than the expected one
}

// cpuUsage is the processor time until a moment of a contestant, of the database server, of this program, which makes
// the load, and of the whole machine.
type cpuUsage struct {
	service, database, generator, machine time.Duration
	at                                    time.Time
}

func (t *testbed) cpuUsage(service int) (u cpuUsage, err error) {
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	const ticks = 100 // USER_HZ, on every Linux platform of Go
	processes, err := procfs.AllProcs()
	if err != nil {
		return u, fmt.Errorf("list processes: %w", err)
	}
	for _, process := range processes {
		stat, err := process.Stat()
		switch {
		case err != nil: // it has ended
		case stat.PID == service:
			u.service = seconds(stat.CPUTime())
		case stat.PID == os.Getpid():
			u.generator = seconds(stat.CPUTime())
		case stat.PID == t.postmaster: // with its children that have ended
			u.database += seconds(stat.CPUTime() + float64(stat.CUTime+stat.CSTime)/ticks)
		case stat.PPID == t.postmaster:
			u.database += seconds(stat.CPUTime())
		}
	}
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return u, fmt.Errorf("read processor time: %w", err)
	}
	stat, err := fs.Stat()
	if err != nil {
		return u, fmt.Errorf("read processor time: %w", err)
	}
	all := stat.CPUTotal // user includes the time of guests
	u.machine, u.at = seconds(all.User+all.Nice+all.System+all.IRQ+all.SoftIRQ+all.Steal), time.Now()
	return u, nil
}

func millis(d time.Duration) float64 { return d.Seconds() * 1e3 }
func micros(d time.Duration) float64 { return d.Seconds() * 1e6 }

// table prints the rounds of two contestants: the medians of each figure, and the median, minimum and maximum of the
// ratios first/second of single rounds.
func table(firstName, secondName string, first, second []figures) string {
	var text strings.Builder
	fmt.Fprintf(&text, "median of\t%s\t%s\tratio\tmin\tmax\t\n", firstName, secondName)
	for _, row := range []struct {
		name, format string
		value        func(figures) float64
		ratio        bool // a ratio of the two contestants is meaningful
	}{
		{"accepted/s", "%.0f", func(f figures) float64 { return f.perSecond }, true},
		{"p50, ms", "%.2f", func(f figures) float64 { return millis(f.p50) }, true},
		{"p99, ms", "%.2f", func(f figures) float64 { return millis(f.p99) }, true},
		{"CPU per request, µs: service", "%.1f", func(f figures) float64 { return micros(f.service) }, true},
		{"CPU per request, µs: database", "%.1f", func(f figures) float64 { return micros(f.database) }, true},
		{"CPU per request, µs: sum", "%.1f", func(f figures) float64 { return micros(f.service + f.database) }, true},
		{"CPU per request, µs: load generator", "%.1f", func(f figures) float64 { return micros(f.generator) }, false},
		{"caught up after, ms", "%.0f", func(f figures) float64 { return millis(f.catchUp) }, false},
		{"noise: processors busy elsewhere", "%.2f", func(f figures) float64 { return f.noise }, false},
	} {
		var a, b, ratios []float64
		for i := range first {
			a, b = append(a, row.value(first[i])), append(b, row.value(second[i]))
			ratios = append(ratios, a[i]/b[i])
		}
		fmt.Fprintf(&text, "%s\t"+row.format+"\t"+row.format+"\t", row.name, median(a), median(b))
		if row.ratio && !slices.Contains(b, 0) {
			fmt.Fprintf(&text, "%.2f\t%.2f\t%.2f\t\n", median(ratios), slices.Min(ratios), slices.Max(ratios))
		} else {
			text.WriteString("\t\t\t\n")
		}
	}
	return align(text.String()) + failures(firstName, first...) + failures(secondName, second...)
}

// align aligns cells, each of which ends with a tab, in columns.
func align(cells string) string {
	var text strings.Builder
	aligned := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = io.WriteString(aligned, cells) // a strings.Builder never fails
	_ = aligned.Flush()                   // as above
	return text.String()
}

func failures(name string, rounds ...figures) string {
	failed := map[string]int{}
	for _, f := range rounds {
		for what, n := range f.failed {
			failed[what] += n
		}
	}
	var text strings.Builder
	for _, what := range slices.Sorted(maps.Keys(failed)) {
		fmt.Fprintf(&text, "%s FAILED: %d × %s\n", name, failed[what], what)
	}
	return text.String()
}

// median returns the middle value, or the mean of the two middle ones.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
