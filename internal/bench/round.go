package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"novelgate/internal/child"
)

// figures are the results of one round of one contestant.
type figures struct {
	accepted  int
	perSecond float64
	p50, p99  time.Duration
	// Processor time per accepted request, user and system, until the projections have caught up.
	service, database, generator time.Duration
	catchUp                      time.Duration  // from the last answer until the projections have caught up
	noise                        float64        // processors that other processes kept busy
	bytes                        int            // size of the body that every reader gets
	failed                       map[string]int // answers other than the expected one
}

// alternate measures all contestants in each round, and begins each round with the next contestant. After a round that
// warms up, it returns the rounds of each contestant.
func alternate(
	ctx context.Context, contestants []*contestant, connections, rounds int, duration time.Duration,
) ([][]figures, error) {
	all := make([][]figures, len(contestants))
	for round := range rounds + 1 {
		for i := range contestants {
			turn := (i + round) % len(contestants)
			f, err := contestants[turn].measure(ctx, connections, duration)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				all[turn] = append(all[turn], f)
			}
		}
	}
	return all, nil
}

// measure runs one round of a fixed duration.
func (c *contestant) measure(ctx context.Context, connections int, duration time.Duration) (figures, error) {
	return c.round(ctx, loadConfig{Connections: connections, Duration: duration})
}

// deliver runs one round of n requests, however long it takes.
func (c *contestant) deliver(ctx context.Context, connections, n int) (figures, error) {
	const noLimit = 7 * 24 * time.Hour
	return c.round(ctx, loadConfig{Connections: connections, Duration: noLimit, Requests: n})
}

// paced runs one round with a fixed rate of requests.
func (c *contestant) paced(ctx context.Context, rate float64, duration time.Duration) (figures, error) {
	return c.round(ctx, loadConfig{Connections: liveConnections, Duration: duration, Rate: rate})
}

// round runs a load in a round of its own, and counts the comments that must or may be stored.
func (c *contestant) round(ctx context.Context, config loadConfig) (figures, error) {
	c.rounds++
	f, err := c.runLoad(ctx, c.withTarget(config))
	if err != nil {
		return f, fmt.Errorf("measure %s: %w", c.name, err)
	}
	if f.accepted == 0 && len(f.failed) > 0 {
		return f, fmt.Errorf("measure %s: all requests failed: %v", c.name, f.failed)
	}
	c.accepted += f.accepted
	for _, n := range f.failed {
		c.unknown += n
	}
	return f, nil
}

// withTarget adds the target and the comments to the configuration of a load.
func (c *contestant) withTarget(config loadConfig) loadConfig {
	config.Host, config.APIKey, config.Path = strings.TrimPrefix(c.url, "http://"), c.apiKey, c.path
	config.Titles, config.Replies, config.Round = c.Titles, c.Replies, c.rounds
	return config
}

// runLoad runs the load generator and measures all processes meanwhile.
func (c *contestant) runLoad(ctx context.Context, config loadConfig) (f figures, err error) {
	encoded, err := json.Marshal(config) //nolint:gosec // the key is for this run
	if err != nil {
		return f, fmt.Errorf("encode the load: %w", err)
	}
	generator, err := child.Launch(child.Command(ctx, c.self, "load", string(encoded)))
	if err != nil {
		return f, err
	}
	ended := false
	defer func() {
		if !ended {
			err = errors.Join(err, generator.Stop())
		}
	}()
	if _, err := generator.Await(loadReady); err != nil {
		return f, err
	}
	before, err := c.cpuUsage(c.process.PID())
	if err != nil {
		return f, err
	}
	if err := generator.Stdin.Close(); err != nil {
		return f, fmt.Errorf("start the load: %w", err)
	}
	line, err := generator.Await(loadResult)
	if err != nil {
		return f, err
	}
	catchUp, err := c.awaitProjections(ctx)
	if err != nil {
		return f, err
	}
	after, err := c.cpuUsage(c.process.PID())
	if err != nil {
		return f, err
	}
	ended = true
	if err := generator.Wait(); err != nil {
		return f, err
	}
	var outcome loadOutcome
	if err := json.Unmarshal([]byte(line), &outcome); err != nil {
		return f, fmt.Errorf("decode the outcome of the load: %w", err)
	}
	return outcome.figures(before, after, generator.ProcessorTime(), catchUp), nil
}

// figures returns the results of a round. generator is the processor time of the load generator.
func (o loadOutcome) figures(before, after cpuUsage, generator, catchUp time.Duration) figures {
	service, database := after.service-before.service, after.database-before.database
	noise := after.machine - before.machine - service - database - generator
	n := time.Duration(max(o.Accepted, 1))
	return figures{
		accepted: o.Accepted, perSecond: float64(o.Accepted) / o.Elapsed.Seconds(), p50: o.P50, p99: o.P99,
		service: service / n, database: database / n, generator: generator / n, catchUp: catchUp,
		noise: max(0, noise.Seconds()/after.at.Sub(before.at).Seconds()), bytes: o.Bytes, failed: o.Failed,
	}
}

// cpuUsage is the processor time until a moment of a contestant, of the database server, and of the whole machine.
type cpuUsage struct {
	service, database, machine time.Duration
	at                         time.Time
}

func (t *testbed) cpuUsage(service int) (u cpuUsage, err error) {
	if u.service, err = processTime(service); err != nil {
		return u, err
	}
	if u.database, err = familyTime(t.postmaster); err != nil {
		return u, err
	}
	u.machine, err = machineTime()
	u.at = time.Now()
	return u, err
}

func millis(d time.Duration) float64 { return d.Seconds() * 1e3 }
func micros(d time.Duration) float64 { return d.Seconds() * 1e6 }

// tableRows are the rows of a table.
var tableRows = []struct {
	name   string
	format string
	value  func(figures) float64
	ratio  bool // a ratio of the two contestants is meaningful
}{
	{"accepted/s", "%.0f", func(f figures) float64 { return f.perSecond }, true},
	{"p50, ms", "%.2f", func(f figures) float64 { return millis(f.p50) }, true},
	{"p99, ms", "%.2f", func(f figures) float64 { return millis(f.p99) }, true},
	{"CPU per request, µs: service", "%.1f", func(f figures) float64 { return micros(f.service) }, true},
	{"CPU per request, µs: database", "%.1f", func(f figures) float64 { return micros(f.database) }, true},
	{"CPU per request, µs: sum", "%.1f", func(f figures) float64 { return micros(f.service + f.database) }, true},
	{"CPU per request, µs: load generator", "%.1f", func(f figures) float64 { return micros(f.generator) }, false},
	{"caught up after, ms", "%.0f", func(f figures) float64 { return millis(f.catchUp) }, false},
	{"bytes for a reader", "%.0f", func(f figures) float64 { return float64(f.bytes) }, false},
	{"noise: processors busy elsewhere", "%.2f", func(f figures) float64 { return f.noise }, false},
}

// table prints the rounds of two contestants: the medians of each figure, and the median, minimum and maximum of the
// ratios first/second of single rounds.
func table(names [2]string, first, second []figures) string {
	var text strings.Builder
	fmt.Fprintf(&text, "median of\t%s\t%s\tratio\tmin\tmax\t\n", names[0], names[1])
	for _, row := range tableRows {
		a, b := valuesOf(first, row.value), valuesOf(second, row.value)
		if slices.Max(a) == 0 && slices.Max(b) == 0 {
			continue
		}
		fmt.Fprintf(&text, "%s\t"+row.format+"\t"+row.format+"\t", row.name, median(a), median(b))
		if row.ratio && !slices.Contains(b, 0) {
			of := ratios(a, b)
			fmt.Fprintf(&text, "%.2f\t%.2f\t%.2f\t\n", median(of), slices.Min(of), slices.Max(of))
		} else {
			text.WriteString("\t\t\t\n")
		}
	}
	return align(text.String()) + failures(names[0], first...) + failures(names[1], second...)
}

// align aligns cells, each of which ends with a tab, in columns.
func align(cells string) string {
	var text strings.Builder
	aligned := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = io.WriteString(aligned, cells) // a strings.Builder never fails
	_ = aligned.Flush()                   // as above
	return text.String()
}

// line prints the figures of one round in one line; CPU is that of the service and its database, per request.
func (f figures) line(name string) string {
	return fmt.Sprintf("%-18s %8.0f/s   p50 %7.2f ms   p99 %7.2f ms   CPU %6.1f + %6.1f µs   noise %.2f\n", name,
		f.perSecond, millis(f.p50), millis(f.p99), micros(f.service), micros(f.database), f.noise) + failures(name, f)
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

func valuesOf(rounds []figures, value func(figures) float64) []float64 {
	values := make([]float64, len(rounds))
	for i, f := range rounds {
		values[i] = value(f)
	}
	return values
}

// median returns the middle value, or the mean of the two middle ones.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

func ratios(dividends, divisors []float64) []float64 {
	list := make([]float64, len(dividends))
	for i := range list {
		list[i] = dividends[i] / divisors[i]
	}
	return list
}

// percentile returns the smallest sample that at least p percent of the sorted samples do not exceed (nearest rank), or
// 0 without samples.
func percentile[T cmp.Ordered](sorted []T, p int) (sample T) {
	if len(sorted) == 0 {
		return sample
	}
	rank := int(math.Ceil(float64(p*len(sorted)) / 100))
	return sorted[max(rank, 1)-1]
}
