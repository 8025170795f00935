package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/bench/contest"
	"novelgate/internal/bench/replay"
	"novelgate/internal/bench/stats"
	"novelgate/projections"
)

// RebuildCommand is `bench rebuild`.
type RebuildCommand struct {
	ArenaFlags
	Events      int           `default:"500000" help:"Comments in the log before the first round."`
	Connections int           `default:"64" help:"Keep-alive connections."`
	Pairs       int           `default:"6" help:"Pairs of rounds, one without and one with a rebuild of posts."`
	Duration    time.Duration `default:"5s" help:"Length of a round."`
	Workers     int           `default:"0" help:"Connections that the rebuild loads with (default: as projection rebuild)."`
	Urgent      bool          `help:"Rebuild as projection rebuild --urgent does, which does not yield to those who append."`
	ServeFlags  []string      `name:"serve-flag" sep:"none" placeholder:"FLAG" help:"Further flags of novelgate serve."`
}

// Run prints how many comments are accepted without and with a rebuild.
func (c *RebuildCommand) Run(in *invocation) error {
	return c.withService(in, serviceSetup{flags: c.ServeFlags}, func(a arenaOfOne) error { return c.measure(in, a) })
}

func (c *RebuildCommand) measure(in *invocation, a arenaOfOne) error {
	pool, err := pgxpool.New(in.ctx, a.database.DatabaseURL())
	if err != nil {
		return fmt.Errorf("open pool: %w", err)
	}
	defer pool.Close()
	begun := in.now()
	if err := errors.Join(a.database.Preload(in.ctx, a.service, c.Events), a.Checkpoint(in.ctx)); err != nil {
		return err
	}
	if err := in.print(fmt.Sprintf("%d comments stored and projected in %v\n", c.Events,
		in.now().Sub(begun).Round(time.Second))); err != nil {
		return err
	}
	if err := c.pairs(in, a.Arena, a.service, pool); err != nil {
		return err
	}
	return a.service.Audit(in.ctx)
}

// pairs alternates: without and with, with and without, …
func (c *RebuildCommand) pairs(
	in *invocation, arena *contest.Arena, service *contest.Contestant, pool *pgxpool.Pool,
) error {
	if _, err := arena.Measure(in.ctx, service, c.Connections, c.Duration); err != nil { // warm-up
		return err
	}
	var without, with, rebuilt []float64
	for pair := range c.Pairs {
		var quiet contest.Figures
		var busy beside
		for turn := range 2 {
			var err error
			if turn == pair%2 {
				quiet, err = arena.Measure(in.ctx, service, c.Connections, c.Duration)
			} else {
				busy, err = c.beside(in, arena, service, pool)
			}
			if err != nil {
				return err
			}
		}
		without, with, rebuilt = append(without, quiet.PerSecond), append(with, busy.PerSecond),
			append(rebuilt, busy.rebuilt())
		// The processors that others kept busy are those of the round without: in the other one the rebuild would count among
		// them.
		const line = "pair %d: %6.0f comments/s without, %6.0f with (%.2f)   p99 %5.1f ms, %5.1f ms   catch-up %v, %v   " +
			"rebuild %6.0f events/s (%s)   others: %.2f processors\n"
		if err := in.print(fmt.Sprintf(line, pair+1, quiet.PerSecond, busy.PerSecond, busy.PerSecond/quiet.PerSecond,
			quiet.P99.Seconds()*1e3, busy.P99.Seconds()*1e3,
			quiet.CatchUp.Round(time.Millisecond), busy.CatchUp.Round(time.Millisecond), busy.rebuilt(),
			busy.Phase, quiet.Others)); err != nil {
			return err
		}
	}
	ratio := stats.Summarise(stats.Ratios(with, without))
	err := in.print(fmt.Sprintf("medians: %.0f comments/s without, %.0f with a rebuild at %.0f events/s; ratio %.2f "+
		"(%.2f–%.2f)\n",
		stats.Summarise(without).Median, stats.Summarise(with).Median, stats.Summarise(rebuilt).Median, ratio.Median,
		ratio.Min, ratio.Max))
	if err != nil {
		return err
	}
	return c.toTheEnd(in, arena, service, pool)
}

// toTheEnd goes on with the rebuild until the new tables have taken over, in rounds of ingest, and prints what each
// came to.
func (c *RebuildCommand) toTheEnd(
	in *invocation, arena *contest.Arena, service *contest.Contestant, pool *pgxpool.Pool,
) error {
	return c.rebuilding(in, pool, func(rebuilding *replay.Background) error {
		for rebuilding.Done().Switches == 0 {
			before := rebuilding.Done()
			figures, err := arena.Measure(in.ctx, service, c.Connections, c.Duration)
			if err != nil {
				return err
			}
			after := rebuilding.Done()
			const line = "to the end: %6.0f comments/s   p99 %5.1f ms   rebuild %6.0f events/s (%s, then %s)\n"
			if err := in.print(fmt.Sprintf(line, figures.PerSecond, figures.P99.Seconds()*1e3,
				float64(after.Events-before.Events)/(after.Took-before.Took).Seconds(), before.Phase, after.Phase)); err != nil {
				return err
			}
		}
		return nil
	})
}

// rebuilding rebuilds posts while do runs, and reads it.
func (c *RebuildCommand) rebuilding(in *invocation, pool *pgxpool.Pool, do func(*replay.Background) error) error {
	background, err := replay.StartRebuild(in.ctx, pool, projections.Posts{}, c.Workers, c.Urgent, in.now)
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(in.ctx)
	watched := make(chan error, 1)
	reads := 0
	go func() {
		var err error
		reads, err = replay.Watch(watching, pool)
		watched <- err
	}()
	err = errors.Join(do(background), background.Stop())
	switches := background.Done().Switches
	stop()
	if err := errors.Join(err, <-watched); err != nil || switches == 0 {
		return err
	}
	return in.print(fmt.Sprintf("New tables took over %d times; %d reads of a discussion around that, each of one "+
		"generation, missed nothing.\n", switches, reads))
}

// beside is a round during which posts was rebuilt.
type beside struct {
	contest.Figures
	replay.Work
}

// rebuilt is events per second.
func (b beside) rebuilt() float64 { return float64(b.Events) / b.Took.Seconds() }

func (c *RebuildCommand) beside(
	in *invocation, arena *contest.Arena, service *contest.Contestant, pool *pgxpool.Pool,
) (b beside, err error) {
	err = c.rebuilding(in, pool, func(background *replay.Background) (err error) {
		b.Figures, err = arena.Measure(in.ctx, service, c.Connections, c.Duration)
		b.Work = background.Done()
		return err
	})
	return b, err
}
