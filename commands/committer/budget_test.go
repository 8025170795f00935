package committer_test

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"novelgate/commands/ratelimit"
)

// budget is a limiter of creations with a fixed number for each integration.
type budget struct {
	mu   sync.Mutex
	free map[uuid.UUID]int
}

func newBudget() *budget { return &budget{free: map[uuid.UUID]int{}} }

func (b *budget) set(integration uuid.UUID, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free[integration] = n
}

func (b *budget) left(integration uuid.UUID) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.free[integration]
}

func (b *budget) Take(
	_ context.Context, integration uuid.UUID, _ ratelimit.Operation, limit, n int,
) (ratelimit.Decision, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := ratelimit.Decision{Granted: min(n, b.free[integration]), Limit: limit}
	if d.Granted < n {
		d.RetryAfter = time.Second
	}
	b.free[integration] -= d.Granted
	return d, nil
}

func (b *budget) Return(
	_ context.Context, integration uuid.UUID, _ ratelimit.Operation, _ ratelimit.Decision, n int,
) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free[integration] += n
	return nil
}
