package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"novelgate/internal/bench/contest"
)

// PoolsCommand is `bench pools`.
type PoolsCommand struct {
	ArenaFlags
	Sizes       []int         `default:"8,16,32" help:"Sizes of pool to try."`
	Connections []int         `default:"64,256" help:"Numbers of keep-alive connections to measure at."`
	Rounds      int           `default:"5" help:"Rounds of each size at each number of connections."`
	Duration    time.Duration `default:"2s" help:"Length of a round."`
}

// Run prints the medians of each size at each number of connections.
func (c *PoolsCommand) Run(in *invocation) (err error) {
	arena, err := c.open(in, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, arena.Close(context.WithoutCancel(in.ctx))) }()
	var peers []*contest.Contestant
	defer func() {
		for _, peer := range peers {
			err = errors.Join(err, peer.Stop(context.WithoutCancel(in.ctx)))
		}
	}()
	for _, size := range c.Sizes {
		database, err := arena.NewPeer(in.ctx, "bench_peer_"+strconv.Itoa(size))
		if err != nil {
			return err
		}
		peer, err := database.Start(in.ctx, size)
		if err != nil {
			return err
		}
		peers = append(peers, peer)
	}
	for _, n := range c.Connections {
		if err := in.print(fmt.Sprintf("\nConnections: %d; %d rounds of %v\n", n, c.Rounds, c.Duration)); err != nil {
			return err
		}
		rounds, err := c.measure(in, arena, peers, n)
		if err != nil {
			return err
		}
		for i, peer := range peers {
			if err := in.print(contest.Medians(peer.Name, rounds[i])); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure runs the rounds in a different order each time, after a warm-up.
func (c *PoolsCommand) measure(
	in *invocation, arena *contest.Arena, peers []*contest.Contestant, connections int,
) ([][]contest.Figures, error) {
	rounds := make([][]contest.Figures, len(peers))
	for round := range c.Rounds + 1 {
		for i := range peers {
			at := (i + round) % len(peers)
			figures, err := arena.Measure(in.ctx, peers[at], connections, c.Duration)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				rounds[at] = append(rounds[at], figures)
			}
		}
	}
	return rounds, nil
}
