package console

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// rebuilds are those that staff start on this replica, one at a time. One that a shutdown interrupts continues when it
// is started again.
type rebuilds struct {
	requests chan *rebuilding // with room for one

	mu   sync.Mutex
	busy bool // one runs, or will as soon as serve gets to it
	last *rebuilding
}

// rebuilding is a rebuild.
type rebuilding struct {
	projection projections.Projection
	By         string
	BeganAt    time.Time
	EndedAt    time.Time // zero while it runs
	Percent    int
	Trouble    string // why it ended early
	Events     int
}

// Name returns the name of the projection.
func (r *rebuilding) Name() string { return r.projection.Name() }

// start starts a rebuild, unless another one runs.
func (r *rebuilds) start(projection projections.Projection, by string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy {
		return false
	}
	r.busy = true
	r.requests <- &rebuilding{projection: projection, By: by}
	return true
}

// latest returns a copy of the latest rebuild; nil without one.
func (r *rebuilds) latest() *rebuilding {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		return nil
	}
	return new(*r.last)
}

// serve carries them out until ctx ends.
func (r *rebuilds) serve(ctx context.Context, c *Console) {
	for {
		select {
		case <-ctx.Done():
			return
		case begun := <-r.requests:
			r.run(ctx, c, begun)
		}
	}
}

func (r *rebuilds) run(ctx context.Context, c *Console, begun *rebuilding) {
	change := func(change func()) {
		r.mu.Lock()
		defer r.mu.Unlock()
		change()
	}
	change(func() { begun.BeganAt, r.last = c.Kit.Now(), begun })
	logger := c.Kit.Logger.With(slog.String("projection", begun.Name()), slog.String("by", begun.By))
	logger.InfoContext(ctx, "rebuilding a projection for staff")
	result, err := rebuild.Run(ctx, rebuild.Config{
		Pool: c.Pool, Projection: begun.projection, Now: c.Kit.Now, Logger: c.Kit.Logger,
		Progress: func(at rebuild.Progress) {
			change(func() { begun.Percent = int(100 * at.Done / max(at.Total, 1)) })
		},
	})
	change(func() {
		r.busy, begun.EndedAt, begun.Events = false, c.Kit.Now(), result.Events
		switch {
		case err != nil && ctx.Err() != nil:
			begun.Trouble = "the replica was stopped"
		case err != nil:
			begun.Trouble = err.Error()
		}
	})
	logger.InfoContext(ctx, "a rebuild for staff has ended", slog.Int("events", result.Events), slog.Any("error", err))
}

// replica is what the metrics of this process say.
type replica struct {
	Queue   int
	Slowest time.Duration // one command in a hundred took longer in the last minutes
	Latency *chart
	Signs   bool
	Relay   *relayState // nil without a relay
}

// relayState is the state of the relay of this process.
type relayState struct {
	Active, Refused       bool
	LagEvents, LagSeconds float64
}

// sample is the latency of all commands of this process until a time.
type sample struct {
	at      time.Time
	total   uint64
	buckets map[float64]uint64 // commands by the upper bound of their latency, in seconds, cumulated
}

// minutes are how far back the charts go.
const minutes = 60

// samples are those of the last minutes, oldest first.
type samples struct {
	mu   sync.Mutex
	list []sample
}

// add adds a sample.
func (s *samples) add(gatherer prometheus.Gatherer, now time.Time) error {
	taken, _, err := read(gatherer, now)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list[max(0, len(s.list)-minutes+1):], taken)
	return nil
}

// replica reads the state of this process.
func (s *samples) replica(gatherer prometheus.Gatherer, now time.Time) (*replica, error) {
	taken, values, err := read(gatherer, now)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	list := append(slices.Clone(s.list), taken)
	s.mu.Unlock()
	r := &replica{
		Queue: int(values["novelgate_committer_queue_commands"]), Signs: values["novelgate_ledger_signer"] > 0,
		Slowest: taken.since(list[max(0, len(list)-6)]).quantile(0.99),
	}
	if active, ok := values["novelgate_relay_active"]; ok {
		r.Relay = &relayState{
			Active: active > 0, Refused: values["novelgate_relay_refused"] > 0,
			LagEvents: values["novelgate_relay_lag_events"], LagSeconds: values["novelgate_relay_lag_seconds"],
		}
	}
	points := make([]point, max(minutes, len(list)-1)) // the newest on the right
	for i := range len(list) - 1 {
		minute := list[i+1].since(list[i])
		slowest := minute.quantile(0.99)
		label := fmt.Sprintf("%v at most for 99 of 100 of %s until %s", slowest,
			count(int(minute.total), "command", "commands"), minute.at.UTC().Format("15:04:05")) //nolint:gosec // far less
		points[len(points)-len(list)+1+i] = point{Value: slowest.Seconds(), Label: label}
	}
	all := taken.since(list[0])
	r.Latency = newChart("Latency of commands on this replica, by minute", fmt.Sprintf(
		"Half within %v, 99 of 100 within %v, of %s since %s (UTC)", all.quantile(0.5), all.quantile(0.99),
		count(int(all.total), "command", "commands"), list[0].at.UTC().Format("15:04")), points) //nolint:gosec // far less
	return r, nil
}

// read reads the latency of commands, and the other metrics by name without their labels.
func read(gatherer prometheus.Gatherer, now time.Time) (sample, map[string]float64, error) {
	taken, values := sample{at: now, buckets: map[float64]uint64{}}, map[string]float64{}
	families, err := gatherer.Gather()
	if err != nil {
		return taken, nil, fmt.Errorf("read metrics: %w", err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() != "novelgate_http_request_seconds" {
				values[family.GetName()] += metric.GetGauge().GetValue()
				continue
			}
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			route := strings.TrimPrefix(labels["route"], "/api/integrations/")
			if labels["method"] == http.MethodGet || !strings.HasPrefix(route, "posts") && !strings.HasPrefix(route, "novels") {
				continue
			}
			taken.total += metric.GetHistogram().GetSampleCount()
			for _, bucket := range metric.GetHistogram().GetBucket() {
				taken.buckets[bucket.GetUpperBound()] += bucket.GetCumulativeCount()
			}
		}
	}
	return taken, values, nil
}

// since returns what was added after an earlier sample.
func (s sample) since(earlier sample) sample {
	added := sample{at: s.at, total: s.total - earlier.total, buckets: map[float64]uint64{}}
	for bound, n := range s.buckets {
		added.buckets[bound] = n - earlier.buckets[bound]
	}
	return added
}

// quantile estimates the latency within which a share of the commands were answered, evenly spread within a bucket.
func (s sample) quantile(share float64) time.Duration {
	rank, below, lower := share*float64(s.total), 0.0, 0.0
	for _, bound := range slices.Sorted(maps.Keys(s.buckets)) {
		n := float64(s.buckets[bound])
		if math.IsInf(bound, 1) {
			break
		}
		if n >= rank && n > below {
			lower += (bound - lower) * (rank - below) / (n - below)
			break
		}
		below, lower = n, bound
	}
	if s.total == 0 {
		return 0
	}
	return time.Duration(lower * float64(time.Second)).Round(100 * time.Microsecond)
}
