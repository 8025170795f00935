package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// rebuildCommand is `bench rebuild`.
type rebuildCommand struct {
	arenaFlags
	Events      int           `default:"500000" help:"Comments in the log before the first round."`
	Connections int           `default:"64" help:"Keep-alive connections."`
	Pairs       int           `default:"6" help:"Pairs of rounds, one without and one with a rebuild of posts."`
	Duration    time.Duration `default:"5s" help:"Length of a round."`
	Workers     int           `default:"0" help:"Connections that the rebuild loads with (default: as projection rebuild)."`
	Urgent      bool          `help:"Rebuild as projection rebuild --urgent does, which does not yield to those who append."`
}

// Run prints how many comments are accepted without and with a rebuild.
func (c *rebuildCommand) Run(ctx context.Context) error {
	return c.runService(ctx, false, nil, func(s *contestant) error {
		pool, err := pgxpool.New(ctx, s.databaseURL)
		if err != nil {
			return fmt.Errorf("open pool: %w", err)
		}
		defer pool.Close()
		if err := s.preload(ctx, c.Events); err != nil {
			return err
		}
		if err := c.pairs(ctx, s, pool); err != nil {
			return err
		}
		if err := c.toTheEnd(ctx, s, pool); err != nil {
			return err
		}
		return s.audit(ctx)
	})
}

// pairs alternates: without and with, with and without, …
func (c *rebuildCommand) pairs(ctx context.Context, s *contestant, pool *pgxpool.Pool) error {
	if _, err := s.measure(ctx, c.Connections, c.Duration); err != nil { // warm-up
		return err
	}
	var without, with, rates []float64
	for pair := range c.Pairs {
		var quiet, busy figures
		var done work
		for turn := range 2 {
			var err error
			if turn == pair%2 {
				quiet, err = s.measure(ctx, c.Connections, c.Duration)
			} else {
				err = c.rebuilding(ctx, pool, func(b *background) (err error) {
					busy, err = s.measure(ctx, c.Connections, c.Duration)
					done = b.done()
					return err
				})
			}
			if err != nil {
				return err
			}
		}
		rate := float64(done.events) / done.took.Seconds()
		without, with, rates = append(without, quiet.perSecond), append(with, busy.perSecond), append(rates, rate)
		// The processors that others kept busy are those of the round without: in the other one the rebuild would count among
		// them.
		const line = "pair %d: %6.0f comments/s without, %6.0f with (%.2f)   p99 %5.1f ms, %5.1f ms   catch-up %v, %v   " +
			"rebuild %6.0f events/s (%s)   others: %.2f processors\n"
		fmt.Printf(line, pair+1, quiet.perSecond, busy.perSecond, busy.perSecond/quiet.perSecond,
			millis(quiet.p99), millis(busy.p99), quiet.catchUp.Round(time.Millisecond),
			busy.catchUp.Round(time.Millisecond), rate, done.phase, quiet.others)
	}
	of := ratios(with, without)
	fmt.Printf("medians: %.0f comments/s without, %.0f with a rebuild at %.0f events/s; ratio %.2f (%.2f–%.2f)\n",
		median(without), median(with), median(rates), median(of), slices.Min(of),
		slices.Max(of))
	return nil
}

// toTheEnd goes on with the rebuild until the new tables have taken over, in rounds of ingest.
func (c *rebuildCommand) toTheEnd(ctx context.Context, s *contestant, pool *pgxpool.Pool) error {
	return c.rebuilding(ctx, pool, func(b *background) error {
		for b.done().switches == 0 {
			before := b.done()
			f, err := s.measure(ctx, c.Connections, c.Duration)
			if err != nil {
				return err
			}
			after := b.done()
			fmt.Printf("to the end: %6.0f comments/s   p99 %5.1f ms   rebuild %6.0f events/s (%s, then %s)\n",
				f.perSecond, millis(f.p99),
				float64(after.events-before.events)/(after.took-before.took).Seconds(), before.phase, after.phase)
		}
		return nil
	})
}

// rebuilding rebuilds posts while do runs, and reads it.
func (c *rebuildCommand) rebuilding(ctx context.Context, pool *pgxpool.Pool, do func(*background) error) error {
	rebuilding, stop := context.WithCancel(ctx)
	defer stop()
	b := &background{begun: make(chan struct{}), from: time.Now()}
	config := rebuild.Config{
		Pool: pool, Projection: projections.Posts{}, Workers: c.Workers, Logger: slog.New(slog.DiscardHandler),
	}
	if !c.Urgent {
		config.Now = time.Now
	}
	ended := make(chan error, 1)
	go func() { ended <- b.run(rebuilding, config) }()
	select {
	case <-b.begun:
	case err := <-ended:
		return err
	}
	err := do(b)
	for err == nil && b.done().phase == rebuild.Indexing { // an index that is interrupted is made again from the beginning
		time.Sleep(50 * time.Millisecond)
		select {
		case err = <-ended:
			ended <- err
		default:
		}
	}
	stop()
	return errors.Join(err, <-ended)
}

// background rebuilds posts again and again. What is interrupted, the next one goes on with.
type background struct {
	begun    chan struct{} // closed when the first rebuild is at work
	from     time.Time
	events   atomic.Int64
	switches atomic.Int64
	phase    atomic.Value
}

// work is what a background has done.
type work struct {
	events, switches int64
	phase            string
	took             time.Duration
}

func (b *background) done() work {
	phase, _ := b.phase.Load().(string)
	return work{b.events.Load(), b.switches.Load(), phase, time.Since(b.from)}
}

func (b *background) run(ctx context.Context, config rebuild.Config) error {
	begun := sync.OnceFunc(func() { close(b.begun) })
	for {
		last := -1
		config.Progress = func(p rebuild.Progress) {
			if last >= 0 { // what an earlier one had done does not count
				b.events.Add(int64(p.Done - last))
			}
			last = p.Done
			b.phase.Store(p.Phase)
			begun()
		}
		_, err := rebuild.Run(ctx, config)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // stopped
		case err != nil:
			return fmt.Errorf("rebuild in the background: %w", err)
		}
		b.switches.Add(1)
	}
}
