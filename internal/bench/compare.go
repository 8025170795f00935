package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"novelgate/internal/bench/contest"
)

// CompareCommand is `bench compare`.
type CompareCommand struct {
	ArenaFlags
	Connections []int         `default:"1,64,256" help:"Numbers of keep-alive connections to measure at."`
	Pairs       int           `default:"9" help:"Pairs of rounds at each number of connections."`
	Duration    time.Duration `default:"2s" help:"Length of a round."`
	Paused      bool          `negatable:"" default:"true" help:"Then measure with paused projections too: the peer has none."`
	Preload     int           `placeholder:"N" help:"Begin with N comments stored already (default: with fresh, never analysed databases)."`
	Pool        int           `default:"32" help:"Database connections of the peer; 32 is the best of 8 to 56 on two processors (see pools)."`
	ServeFlags  []string      `name:"serve-flag" sep:"none" placeholder:"FLAG" help:"Further flags of novelgate serve, such as --serve-flag=--lanes=4."`
}

// Run prints one table for each number of connections.
func (c *CompareCommand) Run(in *invocation) (err error) {
	arena, err := c.open(in, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, arena.Close(context.WithoutCancel(in.ctx))) }()
	service, err := arena.NewService(in.ctx, "bench_service")
	if err != nil {
		return err
	}
	peerDatabase, err := arena.NewPeer(in.ctx, "bench_peer")
	if err != nil {
		return err
	}
	peer, err := peerDatabase.Start(in.ctx, c.Pool)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, peer.Stop(context.WithoutCancel(in.ctx))) }()

	if err := in.print("Asynchronous projections running\n"); err != nil {
		return err
	}
	prepare := func(running *contest.Contestant) error { return c.preload(in, arena, service, peerDatabase, running) }
	if err := c.duels(in, arena, service, peer, false, prepare); err != nil {
		return err
	}
	if !c.Paused {
		return nil
	}
	if err := in.print("\nAsynchronous projections paused\n"); err != nil {
		return err
	}
	return c.duels(in, arena, service, peer, true, func(*contest.Contestant) error { return nil })
}

// duels runs the service, prepares it, and lets it meet the peer at each number of connections.
func (c *CompareCommand) duels(in *invocation, arena *contest.Arena, database *contest.Service,
	peer *contest.Contestant, paused bool,
	prepare func(*contest.Contestant) error,
) (err error) {
	service, err := database.Start(in.ctx, paused, c.ServeFlags...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, service.Stop(context.WithoutCancel(in.ctx))) }()
	if err := prepare(service); err != nil {
		return err
	}
	if err := duel(in, arena, service, peer, c.Connections, c.Pairs, c.Duration); err != nil {
		return err
	}
	return errors.Join(service.Audit(in.ctx), peer.Audit(in.ctx))
}

// duel lets two contestants meet at each number of connections, and prints a table for each.
func duel(
	in *invocation, arena *contest.Arena, first, second *contest.Contestant, connections []int, pairs int,
	duration time.Duration,
) error {
	for _, n := range connections {
		d, err := arena.Duel(in.ctx, first, second, n, pairs, duration)
		if err != nil {
			return err
		}
		table, err := d.Table()
		if err != nil {
			return err
		}
		if err := in.print(table); err != nil {
			return err
		}
	}
	return nil
}

func (c *CompareCommand) preload(
	in *invocation, arena *contest.Arena, service *contest.Service, peer *contest.Peer, running *contest.Contestant,
) error {
	if c.Preload == 0 {
		return nil
	}
	start := in.now()
	if err := errors.Join(service.Preload(in.ctx, running, c.Preload), peer.Preload(in.ctx, c.Preload),
		arena.Checkpoint(in.ctx)); err != nil {
		return err
	}
	return in.print(fmt.Sprintf("%d comments were stored in both databases before the first round, within %v.\n",
		c.Preload, in.now().Sub(start).Round(time.Second)))
}
