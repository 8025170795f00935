package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"
)

// ErrShareExceeded refuses a request of an integration whose share is used up. The request had no effect.
var ErrShareExceeded = errors.New("too many requests of this integration are under way")

// Shares limits the concurrent requests of each integration in this replica: some run, a bounded number waits in order
// of arrival, and all others are refused at once. So no integration takes the whole capacity. Create it with NewShares.
// It is safe for concurrent use.
type Shares struct {
	maxRunning  int64
	maxRequests int // running and waiting

	mu     sync.Mutex
	shares map[uuid.UUID]*share
}

// share is the share of an integration that has requests.
type share struct {
	slots    *semaphore.Weighted
	requests int // running and waiting
}

// NewShares returns Shares that let each integration run and queue the given numbers of requests.
func NewShares(running, waiting int) *Shares {
	return &Shares{maxRunning: int64(running), maxRequests: running + waiting, shares: map[uuid.UUID]*share{}}
}

// Take waits until a request may run. It fails with ErrShareExceeded when too many requests are waiting already, or
// when ctx ends first. After nil the caller must call Return when the request is over.
func (s *Shares) Take(ctx context.Context, integration uuid.UUID) error {
	s.mu.Lock()
	own := s.shares[integration]
	if own == nil {
		own = &share{slots: semaphore.NewWeighted(s.maxRunning)}
		s.shares[integration] = own
	}
	if own.requests >= s.maxRequests {
		s.mu.Unlock()
		return ErrShareExceeded
	}
	own.requests++
	s.mu.Unlock()
	if err := own.slots.Acquire(ctx, 1); err != nil {
		s.release(integration, own)
		return fmt.Errorf("%w: %w", ErrShareExceeded, err)
	}
	return nil
}

// Return ends a running request.
func (s *Shares) Return(integration uuid.UUID) {
	s.mu.Lock()
	own := s.shares[integration]
	s.mu.Unlock()
	own.slots.Release(1)
	s.release(integration, own)
}

// release stops counting a request, which need not have run. It forgets the integration after its last request.
func (s *Shares) release(integration uuid.UUID, own *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own.requests--; own.requests == 0 {
		delete(s.shares, integration)
	}
}
