package commands

import (
	"context"
	"math"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"novelgate/commands/share"
	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
)

// Limits on the queries of one integration in one replica. They protect the other partners and are not part of the
// specification, so replicas count separately.
const (
	queriesPerWindow  = 200
	queryWindow       = 10 * time.Second
	concurrentQueries = 8  // concurrent
	waitingQueries    = 64 // for their turn
)

// guard limits the queries of each integration, so that one does not slow the others. Create it with newGuard.
type guard struct {
	now     func() time.Time
	turns   *share.Shares // of queries
	queries httpkit.Rates
}

func newGuard(now func() time.Time) *guard {
	return &guard{now: now, turns: share.New(concurrentQueries, waitingQueries)}
}

// tokens returns the token bucket of an integration's queries.
func (g *guard) tokens(integration uuid.UUID) *rate.Limiter {
	return g.queries.Of(integration, rate.Every(queryWindow/queriesPerWindow), queriesPerWindow)
}

// enter waits until a query may run, or fails with a *problem.Error. After nil the caller must call turns.Return.
func (g *guard) enter(ctx context.Context, integration uuid.UUID) error {
	if !g.tokens(integration).AllowN(g.now(), 1) {
		return problem.QueriesLimited(queryWindow / queriesPerWindow)
	}
	if err := g.turns.Take(ctx, integration); err != nil {
		return problem.QueriesLimited(retryShare).WithCause(err)
	}
	return nil
}

// status returns the tokens left in an integration's bucket, and the time until the bucket is full.
func (g *guard) status(integration uuid.UUID) (remaining int, reset time.Duration) {
	tokens := max(0, g.tokens(integration).TokensAt(g.now()))
	return int(math.Floor(tokens)), time.Duration((queriesPerWindow - tokens) / queriesPerWindow * float64(queryWindow))
}
