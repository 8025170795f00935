// Command bench measures how fast novelgate stores comments, compared with a CRUD peer on the same PostgreSQL server or
// with another build of itself.
//
//	go run ./internal/bench                                  # compare at 1, 64 and 256 connections
//	go run ./internal/bench --pairs 3 --connections 256
//	go run ./internal/bench --against ./bin/before           # two builds, each on a database of its own
//	go run ./internal/bench growth --events 10000000         # what a comment costs while the database grows
//	go run ./internal/bench profile --output cpu.pprof       # where the service's time goes
//
// Each contestant is a process with a database of its own, on one server. Rounds of the two alternate (A B, B A, A B,
// …), so that drift of the machine and of the tables affects both alike, and ratios are taken per round. The load comes
// from this process, whose processor time is counted separately. The processor time of the database is that of the
// server and all its children. A round ends when the asynchronous projections have caught up, so their cost is
// included.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

type program struct {
	Compare compareCommand `cmd:"" default:"withargs" help:"Measure the service against the CRUD peer or another build, pair by pair."`
	Growth  growthCommand  `cmd:"" help:"Deliver many comments through the service, and measure what each costs while the database grows."`
	Profile profileCommand `cmd:"" help:"Put the service under load, save a profile of it and list its SQL statements by cost."`
	Peer    peerCommand    `cmd:"" hidden:"" help:"Run the CRUD peer."`
}

func main() {
	// On Linux a contestant ends with the thread that has started it.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	command := kong.Parse(&program{}, kong.Name("bench"), kong.Description("Benchmarks of novelgate."),
		kong.UsageOnError(), kong.BindTo(ctx, (*context.Context)(nil)))
	err := command.Run()
	if err != nil && ctx.Err() != nil {
		err = errors.New("interrupted") // the other errors come from stopping
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// compareCommand is `bench compare`.
type compareCommand struct {
	testbedFlags
	Connections  []int         `default:"1,64,256" help:"Numbers of keep-alive connections to measure at."`
	Pairs        int           `default:"9" help:"Pairs of rounds at each number of connections."`
	Duration     time.Duration `default:"2s" help:"Length of a round."`
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
		return c.measure(ctx, first, second)
	})
}

// measure measures the two at each number of connections.
func (c *compareCommand) measure(ctx context.Context, first, second *contestant) error {
	return first.whileRunning(ctx, func() error {
		return second.whileRunning(ctx, func() error {
			for _, connections := range c.Connections {
				all := map[*contestant][]figures{}
				for round := range c.Pairs + 1 {
					turns := []*contestant{first, second}
					if round%2 == 1 {
						turns = []*contestant{second, first}
					}
					for _, turn := range turns {
						f, err := turn.round(ctx, connections, c.Duration, 0)
						if err != nil {
							return err
						}
						if round > 0 { // the first one warms up
							all[turn] = append(all[turn], f)
						}
					}
				}
				fmt.Printf("\nConnections: %d; %d pairs of %v\n%s", connections, c.Pairs, c.Duration,
					table(first.name, second.name, all[first], all[second]))
			}
			return errors.Join(first.checkStored(ctx), second.checkStored(ctx))
		})
	})
}
