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
func (c *RebuildCommand) Run(in *invocation) (err error) {
	arena, err := c.open(in, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, arena.Close(context.WithoutCancel(in.ctx))) }()
	database, err := arena.NewService(in.ctx)
	if err != nil {
		return err
	}
	service, err := database.Start(in.ctx, false, c.ServeFlags...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, service.Stop(context.WithoutCancel(in.ctx))) }()
	pool, err := pgxpool.New(in.ctx, database.DatabaseURL())
	if err != nil {
		return fmt.Errorf("open pool: %w", err)
	}
	defer pool.Close()
	begun := in.now()
	if err := errors.Join(database.Preload(in.ctx, service, c.Events), arena.Checkpoint(in.ctx)); err != nil {
		return err
	}
	if err := in.print(fmt.Sprintf("%d comments stored and projected in %v\n", c.Events, in.now().Sub(begun).Round(time.Second))); err != nil {
		return err
	}
	if err := c.pairs(in, arena, service, pool); err != nil {
		return err
	}
	return service.Audit(in.ctx)
}

// pairs alternates: without and with, with and without, …
func (c *RebuildCommand) pairs(in *invocation, arena *contest.Arena, service *contest.Contestant, pool *pgxpool.Pool) error {
	if _, err := arena.Measure(in.ctx, service, c.Connections, c.Duration); err != nil { // warm-up
		return err
	}
	var without, with, rebuilt []float64
	for pair := range c.Pairs {
		var quiet, busy contest.Figures
		var work replay.Work
		for turn := range 2 {
			var err error
			if turn == pair%2 {
				quiet, err = arena.Measure(in.ctx, service, c.Connections, c.Duration)
			} else {
				busy, work, err = c.beside(in, arena, service, pool)
			}
			if err != nil {
				return err
			}
		}
		perSecond := float64(work.Events) / work.Took.Seconds()
		without, with, rebuilt = append(without, quiet.PerSecond), append(with, busy.PerSecond), append(rebuilt, perSecond)
		const line = "pair %d: %6.0f comments/s without, %6.0f with a rebuild at %6.0f events/s (%s, %d switches)   ratio %.2f   p99 %.1f and %.1f ms   catch-up %v and %v   others %.2f and %.2f\n"
		if err := in.print(fmt.Sprintf(line, pair+1, quiet.PerSecond, busy.PerSecond, perSecond, work.Phase, work.Switches, busy.PerSecond/quiet.PerSecond,
			quiet.P99.Seconds()*1e3, busy.P99.Seconds()*1e3, quiet.CatchUp.Round(time.Millisecond), busy.CatchUp.Round(time.Millisecond), quiet.Others, busy.Others)); err != nil {
			return err
		}
	}
	ratio := stats.Summarise(stats.Ratios(with, without))
	return in.print(fmt.Sprintf("medians: %.0f comments/s without, %.0f with a rebuild at %.0f events/s; ratio %.2f (%.2f–%.2f)\n",
		stats.Summarise(without).Median, stats.Summarise(with).Median, stats.Summarise(rebuilt).Median, ratio.Median, ratio.Min, ratio.Max))
}

// beside measures a round while posts is rebuilt and read.
func (c *RebuildCommand) beside(in *invocation, arena *contest.Arena, service *contest.Contestant, pool *pgxpool.Pool) (contest.Figures, replay.Work, error) {
	rebuilding, err := replay.StartRebuild(in.ctx, pool, projections.Posts{}, c.Workers, c.Urgent, in.now)
	if err != nil {
		return contest.Figures{}, replay.Work{}, err
	}
	watching, stop := context.WithCancel(in.ctx)
	watched := make(chan error, 1)
	go func() {
		_, err := replay.Watch(watching, pool)
		watched <- err
	}()
	figures, err := arena.Measure(in.ctx, service, c.Connections, c.Duration)
	work := rebuilding.Done()
	err = errors.Join(err, rebuilding.Stop())
	stop()
	return figures, work, errors.Join(err, <-watched)
}
