// Package share keeps one integration from taking what all of them share. So many of its requests are under way at a
// time, a bounded number waits for its turn in order of arrival, and the rest is refused at once. Each replica counts
// its own.
package share

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"
)

// ErrExceeded refuses a request of an integration that has used up its share. Nothing of it was carried out.
var ErrExceeded = errors.New("too many requests of this integration are under way")

// Shares are the shares of all integrations. Create them with New. All methods may be called from any goroutine.
type Shares struct {
	underWay int64
	most     int // under way and waiting

	mu     sync.Mutex
	shares map[uuid.UUID]*share
}

// share is that of an integration that has requests.
type share struct {
	turns    *semaphore.Weighted
	requests int // under way and waiting
}

// New returns Shares that let underWay requests of each integration be under way at a time, and waiting more wait.
func New(underWay, waiting int) *Shares {
	return &Shares{underWay: int64(underWay), most: underWay + waiting, shares: map[uuid.UUID]*share{}}
}

// Take returns when it is a request's turn. It fails with ErrExceeded when too many wait already, or when ctx ends
// first. Return must follow when the request is over, and only then.
func (s *Shares) Take(ctx context.Context, integration uuid.UUID) error {
	s.mu.Lock()
	own := s.shares[integration]
	if own == nil {
		own = &share{turns: semaphore.NewWeighted(s.underWay)}
		s.shares[integration] = own
	}
	if own.requests >= s.most {
		s.mu.Unlock()
		return ErrExceeded
	}
	own.requests++
	s.mu.Unlock()
	if err := own.turns.Acquire(ctx, 1); err != nil {
		s.leave(integration, own)
		return fmt.Errorf("%w: %w", ErrExceeded, err)
	}
	return nil
}

// Return ends the turn of a request.
func (s *Shares) Return(integration uuid.UUID) {
	s.mu.Lock()
	own := s.shares[integration]
	s.mu.Unlock()
	own.turns.Release(1)
	s.leave(integration, own)
}

// leave forgets an integration with its last request.
func (s *Shares) leave(integration uuid.UUID, own *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own.requests--; own.requests == 0 {
		delete(s.shares, integration)
	}
}
