package database

import (
	"context"
	"sync"
	"time"
)

// ScrapeCache caches a value for metrics, which it reads from the database at most once a second, at any rate of
// scrapes. It is safe for concurrent use.
type ScrapeCache[T any] struct {
	clock func() time.Time
	read  func(context.Context) (T, error)

	mu    sync.Mutex
	at    time.Time
	value T
	err   error
}

// NewScrapeCache returns a cache of the value that read returns, with a time-out of two seconds.
func NewScrapeCache[T any](clock func() time.Time, read func(context.Context) (T, error)) *ScrapeCache[T] {
	return &ScrapeCache[T]{clock: clock, read: read}
}

// Get returns the value, or the error of reading it.
func (r *ScrapeCache[T]) Get() (T, error) {
	const timeout, age = 2 * time.Second, time.Second
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.clock(); r.at.IsZero() || now.Sub(r.at) >= age || now.Before(r.at) {
		// A scrape has no context.
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		r.value, r.err = r.read(ctx)
		r.at = r.clock()
	}
	return r.value, r.err
}
