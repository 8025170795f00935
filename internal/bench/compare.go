package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// compareCommand is `bench compare`.
type compareCommand struct {
	testbedFlags
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

// Run prints one table for each number of connections.
func (c *compareCommand) Run(ctx context.Context) error {
	return c.withTestbed(ctx, nil, func(t *testbed) error {
		first, err := t.newService(ctx, "novelgate", t.Binary, c.ServeFlags)
		if err != nil {
			return err
		}
		var second *contestant
		if c.Against != "" || len(c.AgainstFlags) > 0 {
			second, err = t.newService(ctx, "the other", cmp.Or(c.Against, t.Binary), c.AgainstFlags)
		} else {
			second, err = t.newPeer(ctx, c.Pool)
		}
		if err != nil {
			return err
		}
		both := []*contestant{first, second}
		if c.Running {
			if err := c.measureBoth(ctx, both, false); err != nil {
				return err
			}
			c.Preload = 0 // it is there now
		}
		if c.Paused {
			return c.measureBoth(ctx, both, true)
		}
		return nil
	})
}

// measureBoth measures the two at each number of connections.
func (c *compareCommand) measureBoth(ctx context.Context, both []*contestant, paused bool) error {
	fmt.Println("\nAsynchronous projections", map[bool]string{false: "running", true: "paused"}[paused])
	return both[0].whileRunning(ctx, paused, func() error {
		return both[1].whileRunning(ctx, paused, func() error {
			if err := errors.Join(both[0].preload(ctx, c.Preload), both[1].preload(ctx, c.Preload)); err != nil {
				return err
			}
			for _, n := range c.Connections {
				rounds, err := alternate(ctx, both, n, c.Pairs, c.Duration)
				if err != nil {
					return err
				}
				fmt.Printf("\nConnections: %d; %d pairs of %v\n%s", n, c.Pairs, c.Duration,
					table([2]string{both[0].name, both[1].name}, rounds[0], rounds[1]))
			}
			return errors.Join(both[0].checkStored(ctx), both[1].checkStored(ctx))
		})
	})
}
