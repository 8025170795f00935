package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"novelgate/internal/bench/contest"
)

// CompareCommand is `bench compare`.
type CompareCommand struct {
	ArenaFlags
	Connections  []int         `default:"1,64,256" help:"Numbers of keep-alive connections to measure at."`
	Pairs        int           `default:"9" help:"Pairs of rounds at each number of connections."`
	Duration     time.Duration `default:"2s" help:"Length of a round."`
	Running      bool          `negatable:"" default:"true" help:"Measure with projections running."`
	Paused       bool          `negatable:"" default:"true" help:"Measure with paused projections: the peer has none."`
	Preload      int           `placeholder:"N" help:"Begin with N comments stored already (default: with fresh, never analysed databases)."`
	Pool         int           `default:"32" help:"Database connections of the peer; 32 is the best of 8 to 56 on two processors."`
	Against      string        `type:"existingfile" placeholder:"FILE" help:"Measure against another build of novelgate instead of the peer."`
	AgainstFlags []string      `name:"against-flag" sep:"none" placeholder:"FLAG" help:"Measure against a novelgate with these flags of serve instead of the peer."`
}

// entrant is one side of a comparison.
type entrant struct {
	start   func(paused bool) (*contest.Contestant, error)
	preload func(n int) error
}

// Run prints one table for each number of connections.
func (c *CompareCommand) Run(ctx context.Context) (err error) {
	arena, err := c.open(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, arena.Close(context.WithoutCancel(ctx))) }()
	first, err := service(ctx, arena, "novelgate", "", c.ServeFlags)
	if err != nil {
		return err
	}
	var second entrant
	if c.Against != "" || len(c.AgainstFlags) > 0 {
		second, err = service(ctx, arena, "the other", c.Against, c.AgainstFlags)
	} else {
		second, err = peer(ctx, arena, c.Pool)
	}
	if err != nil {
		return err
	}
	if c.Running {
		if err := c.duels(ctx, arena, first, second, false); err != nil {
			return err
		}
		c.Preload = 0 // it is there now
	}
	if c.Paused {
		return c.duels(ctx, arena, first, second, true)
	}
	return nil
}

func service(ctx context.Context, arena *contest.Arena, name, binary string, flags []string) (entrant, error) {
	database, err := arena.NewService(ctx, "bench_"+strings.ReplaceAll(name, " ", "_"), binary)
	return entrant{
		start: func(paused bool) (*contest.Contestant, error) {
			running, err := arena.StartService(ctx, database, binary, paused, flags...)
			running.Name = name
			return running, err
		},
		preload: func(n int) error { return arena.Preload(ctx, database, n) },
	}, err
}

func peer(ctx context.Context, arena *contest.Arena, pool int) (entrant, error) {
	database, err := arena.NewPeer(ctx, "bench_peer")
	return entrant{
		start:   func(bool) (*contest.Contestant, error) { return arena.StartPeer(ctx, database, pool) },
		preload: func(n int) error { return arena.PreloadPeer(ctx, database, n) },
	}, err
}

// duels lets the two meet at each number of connections.
func (c *CompareCommand) duels(
	ctx context.Context, arena *contest.Arena, first, second entrant, paused bool,
) (err error) {
	fmt.Println("\nAsynchronous projections", map[bool]string{false: "running", true: "paused"}[paused])
	var both []*contest.Contestant
	for _, e := range []entrant{first, second} {
		contestant, startErr := e.start(paused)
		if startErr != nil {
			return startErr
		}
		defer func() { err = errors.Join(err, contestant.Stop(context.WithoutCancel(ctx))) }()
		both = append(both, contestant)
	}
	if c.Preload > 0 {
		err := errors.Join(first.preload(c.Preload), second.preload(c.Preload))
		for _, contestant := range both {
			_, waited := contestant.Settle(ctx)
			err = errors.Join(err, waited)
		}
		if err := errors.Join(err, arena.Checkpoint(ctx)); err != nil {
			return err
		}
		fmt.Printf("%d comments were stored in both databases before the first round.\n", c.Preload)
	}
	for _, n := range c.Connections {
		rounds, err := arena.Rounds(ctx, both, n, c.Pairs, c.Duration)
		if err != nil {
			return err
		}
		table, err := contest.Table([2]string{both[0].Name, both[1].Name}, rounds[0], rounds[1])
		if err != nil {
			return err
		}
		fmt.Printf("\nConnections: %d; %d pairs of %v\n%s", n, c.Pairs, c.Duration, table)
	}
	return errors.Join(both[0].Audit(ctx), both[1].Audit(ctx))
}
