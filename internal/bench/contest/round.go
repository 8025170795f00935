package contest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"novelgate/internal/bench/load"
)

// Figures are what one round of one contestant came to.
type Figures struct {
	Accepted  int
	PerSecond float64
	P50, P99  time.Duration
	// Processor time per accepted comment, user and system, up to when the contestant had caught up.
	Service, Database, Generator time.Duration
	CatchUp                      time.Duration  // from the last answer to when the contestant had caught up
	Others                       float64        // processors that other processes kept busy: noise
	Failed                       map[string]int // answers other than 201, by what they were
}

// LoadReady is what the process of a load says when it is connected; it begins when it gets a line.
const LoadReady = "ready"

// LoadResult is what comes before the result of a load, a load.Result in JSON.
const LoadResult = "result "

// Measure runs one round.
func (a *Arena) Measure(ctx context.Context, c *Contestant, connections int, duration time.Duration) (Figures, error) {
	if err := c.beginAudit(ctx); err != nil {
		return Figures{}, err
	}
	a.run++
	generator, err := launch(ctx, a.self, "load", "--host", c.host, "--key", c.apiKey, "--connections",
		strconv.Itoa(connections),
		"--duration", duration.String(), "--titles", strconv.Itoa(a.config.Titles), "--replies",
		strconv.FormatFloat(a.config.Replies, 'g', -1, 64),
		"--run", strconv.Itoa(int(a.run)))
	if err != nil {
		return Figures{}, err
	}
	o, err := a.observe(ctx, c, generator)
	if err != nil {
		return Figures{}, errors.Join(fmt.Errorf("measure %s: %w", c.Name, err), generator.stop())
	}
	if err := generator.wait(); err != nil {
		return Figures{}, err
	}
	figures := o.figures(generator.cmd.ProcessState.UserTime() + generator.cmd.ProcessState.SystemTime())
	c.audit.add(figures)
	return figures, nil
}

// observation is a round as it was seen.
type observation struct {
	result  load.Result
	spent   used          // from the first request until the contestant had caught up
	elapsed time.Duration // likewise
	catchUp time.Duration
}

func (a *Arena) observe(ctx context.Context, c *Contestant, generator *child) (o observation, err error) {
	if _, err := generator.await(LoadReady); err != nil {
		return o, err
	}
	before, err := a.used(c)
	if err != nil {
		return o, err
	}
	if _, err := io.WriteString(generator.stdin, "\n"); err != nil {
		return o, fmt.Errorf("start the load: %w", err)
	}
	line, err := generator.await(LoadResult)
	if err != nil {
		return o, err
	}
	if o.catchUp, err = c.settle(ctx, a.config.Now); err != nil {
		return o, err
	}
	after, err := a.used(c)
	if err != nil {
		return o, err
	}
	o.spent, o.elapsed = after.since(before), after.at.Sub(before.at)
	if err := json.Unmarshal([]byte(line), &o.result); err != nil {
		return o, fmt.Errorf("decode the result of the load: %w", err)
	}
	return o, nil
}

func (o observation) figures(generator time.Duration) Figures {
	n := time.Duration(max(o.result.Accepted, 1))
	others := o.spent.machine - o.spent.service - o.spent.database - generator
	return Figures{
		Accepted: o.result.Accepted, PerSecond: float64(o.result.Accepted) / o.result.Elapsed.Seconds(), P50: o.result.P50,
		P99:     o.result.P99,
		Service: o.spent.service / n, Database: o.spent.database / n, Generator: generator / n,
		CatchUp: o.catchUp, Others: max(0, others.Seconds()/o.elapsed.Seconds()), Failed: o.result.Failed,
	}
}
