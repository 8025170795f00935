package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"novelgate/internal/bench/contest"
)

// LedgerCommand is `bench ledger`.
type LedgerCommand struct {
	ArenaFlags
	Connections []int         `default:"64,256" help:"Numbers of keep-alive connections to measure at."`
	Pairs       int           `default:"9" help:"Pairs of rounds at each number of connections."`
	Duration    time.Duration `default:"2s" help:"Length of a round."`
}

// Run lets a service meet another one that does not seal, each on its own database, and prints how long events waited
// for their seal.
func (c *LedgerCommand) Run(in *invocation) (err error) {
	arena, err := c.open(in, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, arena.Close(context.WithoutCancel(in.ctx))) }()
	var two [2]*contest.Contestant
	for i, flags := range [][]string{{}, {"--pause-ledger"}} {
		database, err := arena.NewService(in.ctx, fmt.Sprintf("bench_ledger_%d", i))
		if err != nil {
			return err
		}
		if two[i], err = database.Start(in.ctx, false, flags...); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, two[i].Stop(context.WithoutCancel(in.ctx))) }()
	}
	two[0].Name, two[1].Name = "with the ledger", "without"
	if err := duel(in, arena, two[0], two[1], c.Connections, c.Pairs, c.Duration); err != nil {
		return err
	}
	seals, half, most, err := waits(in.ctx, two[0].OpsURL)
	if err != nil {
		return err
	}
	return in.print(fmt.Sprintf("%d seals; the oldest event of each was sealed within %.2f s of being recorded in half "+
		"of them, within %.2f s in 99 of 100.\n", seals, half, most))
}

const waitMetric = "novelgate_ledger_wait_seconds"

// waits reads from the metrics of a service how many seals there were, and the bounds in seconds of the buckets in
// which the median and the 99th percentile of their waits are.
func waits(ctx context.Context, opsURL string) (seals uint64, median, p99 float64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, opsURL+"/metrics", nil)
	if err != nil {
		return 0, 0, 0, fmt.Errorf("ask for metrics: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, 0, 0, fmt.Errorf("ask for metrics: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // read to its end
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return 0, 0, 0, fmt.Errorf("read metrics: %w", err)
	}
	for _, metric := range families[waitMetric].GetMetric() {
		histogram := metric.GetHistogram()
		seals = histogram.GetSampleCount()
		for _, bucket := range histogram.GetBucket() {
			part := float64(bucket.GetCumulativeCount()) / float64(seals)
			if median == 0 && part >= 0.5 {
				median = bucket.GetUpperBound()
			}
			if p99 == 0 && part >= 0.99 {
				p99 = bucket.GetUpperBound()
			}
		}
	}
	if seals == 0 {
		return 0, 0, 0, errors.New("nothing was sealed")
	}
	return seals, median, p99, nil
}
