package commands

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"novelgate/commands/share"
	"novelgate/internal/problem"
)

// What one integration may ask of one replica. It guards what partners share rather than implement a limit of the
// specification, so replicas do not tell each other.
const (
	queriesPerWindow = 200
	queryWindow      = 10 * time.Second
	queriesUnderWay  = 8  // at a time
	queriesWaiting   = 64 // for their turn
)

// Refusals beyond a rate are held back: a flooder repeats a request as soon as it is refused, and a thousand
// connections of refusals take the processors from everybody (measured on two: a median of 717 ms for a comment of
// another partner).
const (
	refusalsPerSecond = 50
	refusalPause      = time.Second
)

// guard keeps what one integration does from slowing others. Create it with newGuard.
type guard struct {
	now      func() time.Time
	turns    *share.Shares // of queries
	queries  *rates
	refusals *rates // uuid.Nil has those of callers who are not authenticated
}

func newGuard(now func() time.Time) *guard {
	return &guard{
		now: now, turns: share.New(queriesUnderWay, queriesWaiting),
		queries:  newRates(rate.Every(queryWindow/queriesPerWindow), queriesPerWindow),
		refusals: newRates(refusalsPerSecond, 2*refusalsPerSecond),
	}
}

// enter returns when it is a query's turn, or with a *problem.Error. When it returns nil, turns.Return must follow.
func (g *guard) enter(ctx context.Context, integration uuid.UUID) error {
	if !g.queries.of(integration).AllowN(g.now(), 1) {
		return problem.QueriesLimited(queryWindow / queriesPerWindow)
	}
	if err := g.turns.Take(ctx, integration); err != nil {
		return problem.QueriesLimited(retryShare).WithCause(err)
	}
	return nil
}

// status returns how many queries an integration may ask now, and the time until it is as many as ever.
func (g *guard) status(integration uuid.UUID) (remaining int, reset time.Duration) {
	tokens := max(0, g.queries.of(integration).TokensAt(g.now()))
	return int(math.Floor(tokens)), time.Duration((queriesPerWindow - tokens) / queriesPerWindow * float64(queryWindow))
}

// hold returns at once unless an answer is one of too many refusals. Then it waits for a second, or until ctx ends.
func (g *guard) hold(ctx context.Context, integration uuid.UUID, code problem.Code) {
	switch code { //nolint:exhaustive // those that a flooder gets whatever it sends
	case problem.CodeUnauthorized, problem.CodeCapabilityDisabled, problem.CodeRateLimited:
	default:
		return
	}
	if g.refusals.of(integration).AllowN(g.now(), 1) {
		return
	}
	timer := time.NewTimer(refusalPause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// rates are token buckets, as many as there are integrations.
type rates struct {
	limit rate.Limit
	burst int

	mu      sync.Mutex
	buckets map[uuid.UUID]*rate.Limiter
}

func newRates(limit rate.Limit, burst int) *rates {
	return &rates{limit: limit, burst: burst, buckets: map[uuid.UUID]*rate.Limiter{}}
}

func (r *rates) of(integration uuid.UUID) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	bucket := r.buckets[integration]
	if bucket == nil {
		bucket = rate.NewLimiter(r.limit, r.burst)
		r.buckets[integration] = bucket
	}
	return bucket
}
