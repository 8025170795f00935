package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall"
	"time"

	"novelgate/internal/child"
	"novelgate/projections"
)

// mirrorCommand is `bench mirror`.
type mirrorCommand struct {
	testbedFlags
	Events      int           `default:"2000000" help:"Comments in the log of the origin."`
	Rounds      int           `default:"3" help:"Times that a new mirror copies the log, and the origin rebuilds its projections, in turns."`
	Connections int           `default:"64" help:"Keep-alive connections."`
	Pairs       int           `default:"9" help:"Then pairs of rounds of comments, without and with a mirror that is catching up."`
	Duration    time.Duration `default:"2s" help:"Length of a round of comments."`
}

// Run measures how long a new mirror needs for a log, and what comments cost while a mirror catches up.
func (c *mirrorCommand) Run(ctx context.Context) error {
	return c.withService(ctx, false, nil, func(s *contestant) (err error) {
		n := &neighbours{service: s, priority: idle}
		defer func() { err = errors.Join(err, n.stop()) }()
		if err := s.preload(ctx, c.Events-c.Titles); err != nil {
			return err
		}
		if err := n.awaitLedger(ctx); err != nil {
			return err
		}
		for round := range c.Rounds {
			copied, err := timed(func() error { return n.copyLog(ctx, "copy"+strconv.Itoa(round)) })
			if err != nil {
				return err
			}
			rebuilt, err := timed(func() error { return n.rebuildAll(ctx) })
			if err != nil {
				return err
			}
			fmt.Printf("new mirror %6.1f s   rebuild of all projections %6.1f s   ratio %.2f\n", copied.Seconds(),
				rebuilt.Seconds(), copied.Seconds()/rebuilt.Seconds())
		}
		return c.catchUp(ctx, n)
	})
}

func timed(do func() error) (time.Duration, error) {
	begun := time.Now()
	err := do()
	return time.Since(begun), err
}

// awaitLedger waits until all events are signed.
func (n *neighbours) awaitLedger(ctx context.Context) error {
	const signedSQL = `SELECT coalesce((SELECT max(tree_size) FROM ledger_checkpoints), 0) = (SELECT count(*) FROM events)`
	for {
		var signed bool
		if err := n.service.conn.QueryRow(ctx, signedSQL).Scan(&signed); err != nil {
			return fmt.Errorf("wait for the ledger: %w", err)
		}
		if signed {
			return nil
		}
		time.Sleep(time.Second)
	}
}

// copyLog starts a mirror, waits until it has projected all events, and stops it.
func (n *neighbours) copyLog(ctx context.Context, name string) error {
	m, err := n.startMirror(ctx, name)
	if err != nil {
		return err
	}
	err = n.awaitMirror(ctx, m)
	return errors.Join(err, m.stop(ctx), n.stop())
}

// rebuildAll rebuilds each asynchronous projection of the service.
func (n *neighbours) rebuildAll(ctx context.Context) error {
	for _, p := range projections.All() {
		rebuild := child.Command(ctx, n.service.Binary, "projection", "rebuild", p.Name(), "--database-url",
			n.service.databaseURL, "--json")
		rebuild.Stderr = nil // its progress
		if err := rebuild.Run(); err != nil {
			return fmt.Errorf("rebuild %s: %w", p.Name(), err)
		}
	}
	return nil
}

// catchUp measures comments while a new mirror copies the log, and while it is stopped, in turns.
func (c *mirrorCommand) catchUp(ctx context.Context, n *neighbours) (err error) {
	m, err := n.startMirror(ctx, "behind")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.stop(ctx)) }()
	defer m.process.Signal(syscall.SIGCONT) // otherwise it could not end
	var rounds [2][]figures                 // without and with the mirror
	for round := range c.Pairs + 1 {
		for turn := range 2 {
			with := (round + turn) % 2
			m.process.Signal([]syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT}[with])
			f, err := n.service.measure(ctx, c.Connections, c.Duration)
			if err != nil {
				return err
			}
			if round > 0 { // the first one warms up
				rounds[with] = append(rounds[with], f)
			}
		}
	}
	var copied, all int
	if err := m.conn.QueryRow(ctx, `SELECT count(*) FROM events`).Scan(&copied); err != nil {
		return fmt.Errorf("count the events of the mirror: %w", err)
	}
	if err := n.service.conn.QueryRow(ctx, `SELECT count(*) FROM events`).Scan(&all); err != nil {
		return fmt.Errorf("count the events: %w", err)
	}
	fmt.Print(table([2]string{"without mirror", "with mirror"}, rounds[0], rounds[1]))
	fmt.Printf("The mirror has %d of %d events.\n", copied, all)
	return nil
}
