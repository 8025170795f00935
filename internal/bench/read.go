package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"novelgate/internal/bench/contest"
	"novelgate/internal/bench/readers"
	"novelgate/internal/bench/stats"
)

// ReadCommand is `bench read`.
type ReadCommand struct {
	ArenaFlags
	Connections int           `default:"64" help:"Keep-alive connections."`
	Comments    int           `default:"20000" help:"How many comments the discussion has."`
	Rounds      int           `default:"5" help:"Rounds of each contestant."`
	Duration    time.Duration `default:"2s" help:"Length of a round."`
	Profile     string        `placeholder:"FILE" help:"Save a CPU profile of the service, half of it pages and half of it JSON."`
}

// Run prints what pages and JSON of a discussion cost beside printing the rows of the same statement.
func (c *ReadCommand) Run(in *invocation) error {
	c.Titles = 1
	return c.withService(in, serviceSetup{paused: true}, func(a arenaOfOne) error { return c.measure(in, a) })
}

func (c *ReadCommand) measure(in *invocation, a arenaOfOne) (err error) {
	if err := readers.Fill(in.ctx, a.database.DatabaseURL(), c.Comments); err != nil {
		return err
	}
	peer, err := a.database.StartReadPeer(in.ctx, readers.Slug)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, peer.Stop(context.WithoutCancel(in.ctx))) }()
	query := "/discussion?limit=" + strconv.Itoa(readers.Tops)
	loads := []*readers.Load{
		{Host: peer.Host(), Path: "/"},
		{Host: a.service.Host(), Path: "/api/novels/" + readers.Slug + query},
		{Host: a.service.Host(), Path: "/novels/" + readers.Slug + query},
	}
	if c.Profile != "" {
		return c.profile(in, a.service, loads[1:])
	}
	return c.compare(in, loads, []string{peer.Name, "JSON", "page"})
}

// compare lets the contestants take turns and prints medians. The first is the one that the others are compared with.
func (c *ReadCommand) compare(in *invocation, loads []*readers.Load, names []string) error {
	results := make([][]readers.Result, len(loads))
	for round := range c.Rounds + 1 {
		for i, load := range loads {
			result, err := c.run(in, load)
			if err != nil {
				return fmt.Errorf("%s: %w", names[i], err)
			}
			if round > 0 { // the first is a warm-up
				results[i] = append(results[i], result)
			}
		}
	}
	perSecond := func(i int) []float64 {
		return columnOf(results[i], func(r readers.Result) float64 { return r.PerSecond })
	}
	text := fmt.Sprintf("A page of %d comments out of %d; %d connections, %d rounds of %v\n", readers.Posts, c.Comments,
		c.Connections, c.Rounds, c.Duration)
	for i, name := range names {
		ratio := stats.Summarise(stats.Ratios(perSecond(i), perSecond(0)))
		text += fmt.Sprintf("%-24s %7.0f/s   p50 %6.2f ms   p99 %6.2f ms   %6d bytes   ratio %.2f (%.2f–%.2f)\n", name,
			stats.Summarise(perSecond(i)).Median,
			stats.Summarise(columnOf(results[i], func(r readers.Result) float64 { return r.P50.Seconds() * 1e3 })).Median,
			stats.Summarise(columnOf(results[i], func(r readers.Result) float64 { return r.P99.Seconds() * 1e3 })).Median,
			results[i][0].Bytes, ratio.Median, ratio.Min, ratio.Max)
	}
	return in.print(text)
}

func (c *ReadCommand) run(in *invocation, load *readers.Load) (readers.Result, error) {
	load.Connections, load.Now = c.Connections, in.now
	result, err := load.Run(in.ctx, c.Duration)
	if err != nil {
		return result, fmt.Errorf("run load: %w", err)
	}
	return result, nil
}

func columnOf(results []readers.Result, value func(readers.Result) float64) []float64 {
	values := make([]float64, len(results))
	for i, r := range results {
		values[i] = value(r)
	}
	return values
}

// profile saves where the processor time of the service goes.
func (c *ReadCommand) profile(in *invocation, service *contest.Contestant, loads []*readers.Load) error {
	saved := make(chan error, 1)
	length := time.Duration(len(loads)) * c.Duration
	go func() {
		saved <- saveProfile(in.ctx, service.OpsURL+"/debug/pprof/profile?seconds="+strconv.Itoa(int(length.Seconds())),
			c.Profile)
	}()
	var errs []error
	for _, load := range loads {
		_, err := c.run(in, load)
		errs = append(errs, err)
	}
	return errors.Join(append(errs, <-saved)...)
}
