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

	"novelgate/internal/bench/contest"
	"novelgate/projections"
	"novelgate/projections/rebuild"
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
}

// Run prints how many comments are accepted without and with a rebuild.
func (c *RebuildCommand) Run(ctx context.Context) error {
	return c.run(ctx, false, nil, func(a withService) error {
		pool, err := pgxpool.New(ctx, a.database.URL)
		if err != nil {
			return fmt.Errorf("open pool: %w", err)
		}
		defer pool.Close()
		for _, step := range []func() error{
			func() error { return a.preload(ctx, c.Events) },
			func() error { return c.pairs(ctx, a, pool) },
			func() error { return c.toTheEnd(ctx, a, pool) },
			func() error { return a.service.Audit(ctx) },
		} {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	})
}

// pairs alternates: without and with, with and without, …
func (c *RebuildCommand) pairs(ctx context.Context, a withService, pool *pgxpool.Pool) error {
	if _, err := a.Measure(ctx, a.service, c.Connections, c.Duration); err != nil { // warm-up
		return err
	}
	var without, with, rates []float64
	for pair := range c.Pairs {
		var quiet, busy contest.Figures
		var done work
		for turn := range 2 {
			var err error
			if turn == pair%2 {
				quiet, err = a.Measure(ctx, a.service, c.Connections, c.Duration)
			} else {
				err = c.rebuilding(ctx, pool, func(b *background) (err error) {
					busy, err = a.Measure(ctx, a.service, c.Connections, c.Duration)
					done = b.done()
					return err
				})
			}
			if err != nil {
				return err
			}
		}
		rate := float64(done.events) / done.took.Seconds()
		without, with, rates = append(without, quiet.PerSecond), append(with, busy.PerSecond), append(rates, rate)
		// The processors that others kept busy are those of the round without: in the other one the rebuild would count among
		// them.
		const line = "pair %d: %6.0f comments/s without, %6.0f with (%.2f)   p99 %5.1f ms, %5.1f ms   catch-up %v, %v   " +
			"rebuild %6.0f events/s (%s)   others: %.2f processors\n"
		fmt.Printf(line, pair+1, quiet.PerSecond, busy.PerSecond, busy.PerSecond/quiet.PerSecond,
			quiet.P99.Seconds()*1e3, busy.P99.Seconds()*1e3, quiet.CatchUp.Round(time.Millisecond),
			busy.CatchUp.Round(time.Millisecond), rate, done.phase, quiet.Others)
	}
	ratios := contest.Ratios(with, without)
	fmt.Printf("medians: %.0f comments/s without, %.0f with a rebuild at %.0f events/s; ratio %.2f (%.2f–%.2f)\n",
		contest.Median(without), contest.Median(with), contest.Median(rates), contest.Median(ratios), slices.Min(ratios),
		slices.Max(ratios))
	return nil
}

// toTheEnd goes on with the rebuild until the new tables have taken over, in rounds of ingest.
func (c *RebuildCommand) toTheEnd(ctx context.Context, a withService, pool *pgxpool.Pool) error {
	return c.rebuilding(ctx, pool, func(b *background) error {
		for b.done().switches == 0 {
			before := b.done()
			figures, err := a.Measure(ctx, a.service, c.Connections, c.Duration)
			if err != nil {
				return err
			}
			after := b.done()
			fmt.Printf("to the end: %6.0f comments/s   p99 %5.1f ms   rebuild %6.0f events/s (%s, then %s)\n",
				figures.PerSecond, figures.P99.Seconds()*1e3,
				float64(after.events-before.events)/(after.took-before.took).Seconds(), before.phase, after.phase)
		}
		return nil
	})
}

// rebuilding rebuilds posts while do runs, and reads it.
func (c *RebuildCommand) rebuilding(ctx context.Context, pool *pgxpool.Pool, do func(*background) error) error {
	rebuilding, stop := context.WithCancel(ctx)
	defer stop()
	b := &background{begun: make(chan struct{}), from: time.Now()}
	config := rebuild.Config{
		Pool: pool, Projection: projections.Posts{}, Workers: c.Workers, Logger: slog.New(slog.DiscardHandler),
	}
	if !c.Urgent {
		config.Now = time.Now
	}
	ended, watched := make(chan error, 1), make(chan error, 1)
	go func() { ended <- b.run(rebuilding, config) }()
	select {
	case <-b.begun:
	case err := <-ended:
		return err
	}
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	var reads int
	go func() {
		var err error
		reads, err = watch(watching, pool)
		watched <- err
	}()
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
	err = errors.Join(err, <-ended)
	stopWatching()
	if err := errors.Join(err, <-watched); err != nil || b.done().switches == 0 {
		return err
	}
	fmt.Printf("New tables took over %d times; %d reads of a discussion around that, each of one generation, "+
		"missed nothing.\n", b.done().switches, reads)
	return nil
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

var errMixed = errors.New("an answer was not of one generation")

// watch reads a discussion again and again until ctx ends, and returns how often. It fails with the first read that
// fails, that is of two generations, or that misses what an earlier one has shown.
func watch(ctx context.Context, pool *pgxpool.Pool) (reads int, err error) {
	// One discussion, with the table named twice: whichever generation it is, it must be the same one in both places.
	const watchSQL = `SELECT count(*), count(*) FILTER (WHERE p.tableoid <> q.tableoid), count(DISTINCT p.tableoid)
FROM posts AS p JOIN posts AS q USING (post_id)
WHERE p.thread_id = (SELECT thread_id FROM threads ORDER BY novel_id LIMIT 1) AND p.root_post_id IS NULL`
	for seen := 0; ; time.Sleep(20 * time.Millisecond) {
		var rows, mixed, generations int
		err := pool.QueryRow(ctx, watchSQL).Scan(&rows, &mixed, &generations)
		switch {
		case ctx.Err() != nil:
			return reads, nil //nolint:nilerr // the end
		case err != nil:
			return reads, fmt.Errorf("read while tables are exchanged: %w", err)
		case mixed > 0 || generations > 1 || rows < seen:
			return reads, fmt.Errorf("%w: %d comments after %d, %d generations", errMixed, rows, seen, generations)
		}
		seen = rows
		reads++
	}
}
