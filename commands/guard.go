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

// What one integration may ask of one replica. It guards what partners share rather than implement a limit of the
// specification, so replicas do not tell each other.
const (
	queriesPerWindow = 200
	queryWindow      = 10 * time.Second
	queriesUnderWay  = 8  // at a time
	queriesWaiting   = 64 // for their turn
)

// guard keeps what one integration does from slowing others. Create it with newGuard.
type guard struct {
	now     func() time.Time
	turns   *share.Shares // of queries
	queries httpkit.Rates
}

func newGuard(now func() time.Time) *guard {
	return &guard{now: now, turns: share.New(queriesUnderWay, queriesWaiting)}
}

// tokens is the bucket of an integration's queries.
func (g *guard) tokens(integration uuid.UUID) *rate.Limiter {
	return g.queries.Of(integration, rate.Every(queryWindow/queriesPerWindow), queriesPerWindow)
}

// enter returns when it is a query's turn, or with a *problem.Error. When it returns nil, turns.Return must follow.
func (g *guard) enter(ctx context.Context, integration uuid.UUID) error {
	if !g.tokens(integration).AllowN(g.now(), 1) {
		return problem.QueriesLimited(queryWindow / queriesPerWindow)
	}
	if err := g.turns.Take(ctx, integration); err != nil {
		return problem.QueriesLimited(retryShare).WithCause(err)
	}
	return nil
}

// status returns how many queries an integration may ask now, and the time until it is as many as ever.
func (g *guard) status(integration uuid.UUID) (remaining int, reset time.Duration) {
	tokens := max(0, g.tokens(integration).TokensAt(g.now()))
	return int(math.Floor(tokens)), time.Duration((queriesPerWindow - tokens) / queriesPerWindow * float64(queryWindow))
}
