package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"novelgate/internal/bench/stats"
)

// Config of a load.
type Config struct {
	Host        string // host and port of the endpoint
	APIKey      string
	Connections int
	Duration    time.Duration // no request is begun later than this
	Titles      int           // comments are about so many novels
	Replies     float64       // share of comments that answer an earlier one, 0 to 1
	Run         uint16        // makes the keys unique; 0 is Prepare's own
	Now         func() time.Time
}

// Result of a load.
type Result struct {
	Accepted int            `json:"accepted"` // answers with status 201
	Failed   map[string]int `json:"failed"`   // everything else, by what it was; empty when all is well
	Elapsed  time.Duration  `json:"elapsed"`  // until the last answer was in
	P50      time.Duration  `json:"p50"`
	P99      time.Duration  `json:"p99"`
}

// timeToDrain is how long an answer may take after the end of a load.
const timeToDrain = 10 * time.Second

// variety is how many different texts there are.
const variety = 512

// Load is a set of open connections.
type Load struct {
	config  Config
	titles  []string
	newest  []atomic.Uint64 // by title: origin of a comment that was accepted
	clients []*client
}

// Open connects. The novels must have been prepared.
func Open(ctx context.Context, config Config) (*Load, error) {
	l := &Load{config: config, titles: make([]string, config.Titles), newest: make([]atomic.Uint64, config.Titles)}
	for i := range l.titles {
		l.titles[i] = Title(i)
		l.newest[i].Store(uint64(newOrigin(0, 0, i)))
	}
	contents := make([]string, variety)
	rng := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // not a secret
	for i := range contents {
		contents[i] = Content(rng)
	}
	for i := range config.Connections {
		c, err := l.dial(ctx, i, contents)
		if err != nil {
			l.Close()
			return nil, err
		}
		l.clients = append(l.clients, c)
	}
	return l, nil
}

// Close closes the connections.
func (l *Load) Close() {
	for _, c := range l.clients {
		_ = c.conn.Close() // nothing is on its way any more
	}
}

// Run sends comments on all connections for the configured duration.
func (l *Load) Run() (Result, error) {
	start := l.config.Now()
	end := start.Add(l.config.Duration)
	errs := make([]error, len(l.clients))
	var wg sync.WaitGroup
	for i, c := range l.clients {
		wg.Go(func() { errs[i] = c.run(end) })
	}
	wg.Wait()
	result := Result{Elapsed: l.config.Now().Sub(start), Failed: map[string]int{}}
	var latencies []time.Duration
	for _, c := range l.clients {
		latencies = append(latencies, c.latencies...)
		for what, n := range c.failed {
			result.Failed[what] += n
		}
	}
	slices.Sort(latencies)
	result.Accepted = len(latencies)
	result.P50, result.P99 = stats.Percentile(latencies, 50), stats.Percentile(latencies, 99)
	return result, errors.Join(errs...)
}

// Prepare sends one comment to each novel, which creates the novel and its discussion and gives the first replies
// their parents. Repeating it changes nothing.
func Prepare(ctx context.Context, config Config) error {
	const connections = 8
	config.Connections = connections
	config.Duration = time.Minute
	l, err := Open(ctx, config)
	if err != nil {
		return err
	}
	defer l.Close()
	errs := make([]error, connections)
	var wg sync.WaitGroup
	for i, c := range l.clients {
		wg.Go(func() { errs[i] = c.prepare(i, connections) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("prepare novels: %w", err)
	}
	return nil
}
