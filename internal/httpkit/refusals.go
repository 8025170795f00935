package httpkit

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"novelgate/internal/problem"
)

// Refusals beyond a rate are held back: a flooder repeats a request as soon as it is refused, and a thousand
// connections of refusals take the processors from everybody (measured on two: a median of 717 ms for a comment of
// another partner).
const (
	refusalsPerSecond = 50
	refusalPause      = time.Second
)

// refusals are counted by caller. The zero value is ready.
type refusals struct {
	once  sync.Once
	rates *Rates
}

// Hold returns at once unless an error is one of too many refusals of a caller; uuid.Nil stands for all who are not
// authenticated. Then it waits for a second, or until ctx ends.
func (k *Kit) Hold(ctx context.Context, caller uuid.UUID, err error) {
	switch k.Problem(err).Code { //nolint:exhaustive // those that a flooder gets whatever it sends
	case problem.CodeUnauthorized, problem.CodeCapabilityDisabled, problem.CodeRateLimited:
	default:
		return
	}
	k.refusals.once.Do(func() { k.refusals.rates = NewRates(refusalsPerSecond, 2*refusalsPerSecond) })
	if k.refusals.rates.Of(caller).AllowN(k.Now(), 1) {
		return
	}
	timer := time.NewTimer(refusalPause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Rates are token buckets, one for each caller. Create them with NewRates.
type Rates struct {
	limit rate.Limit
	burst int

	mu      sync.Mutex
	buckets map[uuid.UUID]*rate.Limiter
}

// NewRates returns full buckets of burst tokens that fill up at a rate.
func NewRates(limit rate.Limit, burst int) *Rates {
	return &Rates{limit: limit, burst: burst, buckets: map[uuid.UUID]*rate.Limiter{}}
}

// Of returns the bucket of a caller.
func (r *Rates) Of(caller uuid.UUID) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	bucket := r.buckets[caller]
	if bucket == nil {
		bucket = rate.NewLimiter(r.limit, r.burst)
		r.buckets[caller] = bucket
	}
	return bucket
}
