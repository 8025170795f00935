package contest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// Figures are what one round of one contestant came to.
type Figures struct {
	Accepted  int
	PerSecond float64
	P50, P99  time.Duration
	// Processor time per accepted request, user and system, up to when the contestant had caught up.
	Service, Database, Generator time.Duration
	CatchUp                      time.Duration  // from the last answer to when the contestant had caught up
	Others                       float64        // processors that other processes kept busy: noise
	Bytes                        int            // of the body that every reader got
	Failed                       map[string]int // answers other than the expected one, by what they were
}

// Rounds lets contestants take turns, in a different order each time: a warm-up round each that does not count, then
// so many rounds. It returns the rounds of each contestant.
func (a *Arena) Rounds(
	ctx context.Context, contestants []*Contestant, connections, rounds int, duration time.Duration,
) ([][]Figures, error) {
	all := make([][]Figures, len(contestants))
	for round := range rounds + 1 {
		for i := range contestants {
			turn := (i + round) % len(contestants)
			figures, err := a.Measure(ctx, contestants[turn], connections, duration)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				all[turn] = append(all[turn], figures)
			}
		}
	}
	return all, nil
}

// Measure runs one round.
func (a *Arena) Measure(ctx context.Context, c *Contestant, connections int, duration time.Duration) (Figures, error) {
	return a.audited(ctx, c, loadConfig{Connections: connections, Duration: duration})
}

// Deliver runs one round of n requests, however long it takes.
func (a *Arena) Deliver(ctx context.Context, c *Contestant, connections, n int) (Figures, error) {
	const noLimit = 7 * 24 * time.Hour
	return a.audited(ctx, c, loadConfig{Connections: connections, Duration: noLimit, Requests: n})
}

func (a *Arena) audited(ctx context.Context, c *Contestant, size loadConfig) (Figures, error) {
	figures, err := a.measure(ctx, c, size)
	if err != nil {
		return figures, fmt.Errorf("measure %s: %w", c.Name, err)
	}
	c.audit.accepted += figures.Accepted
	for _, n := range figures.Failed {
		c.audit.failed += n
	}
	return figures, nil
}

func (a *Arena) measure(ctx context.Context, c *Contestant, size loadConfig) (figures Figures, err error) {
	if c.audit.before == 0 {
		stored, err := c.stored(ctx)
		if err != nil {
			return figures, err
		}
		c.audit.before = stored + 1
	}
	a.run++
	config := a.load(c)
	config.Connections, config.Duration, config.Requests = size.Connections, size.Duration, size.Requests
	config.Run = a.run
	encoded, err := json.Marshal(config) //nolint:gosec // the key is for this run
	if err != nil {
		return figures, fmt.Errorf("encode the load: %w", err)
	}
	generator, err := launch(ctx, a.self, "load", string(encoded))
	if err != nil {
		return figures, err
	}
	ended := false
	defer func() {
		if !ended {
			err = errors.Join(err, generator.stop())
		}
	}()
	if _, err := generator.await(loadReady); err != nil {
		return figures, err
	}
	before, err := a.used(c)
	if err != nil {
		return figures, err
	}
	if err := generator.stdin.Close(); err != nil {
		return figures, fmt.Errorf("start the load: %w", err)
	}
	line, err := generator.await(loadResult)
	if err != nil {
		return figures, err
	}
	catchUp, err := c.Settle(ctx)
	if err != nil {
		return figures, err
	}
	after, err := a.used(c)
	if err != nil {
		return figures, err
	}
	ended = true
	if err := generator.wait(); err != nil {
		return figures, err
	}
	var result loadOutcome
	if err := json.Unmarshal([]byte(line), &result); err != nil {
		return figures, fmt.Errorf("decode the result of the load: %w", err)
	}
	own := generator.cmd.ProcessState.UserTime() + generator.cmd.ProcessState.SystemTime()
	service, database := after.service-before.service, after.database-before.database
	others := after.machine - before.machine - service - database - own
	n := time.Duration(max(result.Accepted, 1))
	return Figures{
		Accepted: result.Accepted, PerSecond: float64(result.Accepted) / result.Elapsed.Seconds(),
		P50: result.P50, P99: result.P99, Service: service / n, Database: database / n, Generator: own / n,
		CatchUp: catchUp, Others: max(0, others.Seconds()/after.at.Sub(before.at).Seconds()),
		Bytes: result.Bytes, Failed: result.Failed,
	}, nil
}

// used is the processor time so far of a contestant, of the database server, and of everybody together.
type used struct {
	service, database, machine time.Duration
	at                         time.Time
}

func (a *Arena) used(c *Contestant) (used, error) {
	service, err := ProcessTime(c.process.cmd.Process.Pid)
	if err != nil {
		return used{}, err
	}
	database, err := familyTime(a.postmaster)
	if err != nil {
		return used{}, err
	}
	machine, err := machineTime()
	return used{service, database, machine, time.Now()}, err
}

// OwnTime is the processor time that this process has used so far.
func OwnTime() (time.Duration, error) { return ProcessTime(os.Getpid()) }
