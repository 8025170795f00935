// Package scrape spares the database what Prometheus asks for.
package scrape

import (
	"context"
	"sync"
	"time"
)

const (
	timeout = 2 * time.Second // of one reading
	age     = time.Second     // that a reading may have
)

// Reading is a value that is read anew at most once a second. It is safe for concurrent use.
type Reading[T any] struct {
	clock func() time.Time
	read  func(context.Context) (T, error)

	mu    sync.Mutex
	at    time.Time
	value T
	err   error
}

// New returns a value that read reads, within two seconds. The clock tells how old it is.
func New[T any](clock func() time.Time, read func(context.Context) (T, error)) *Reading[T] {
	return &Reading[T]{clock: clock, read: read}
}

// Get returns the value, or why it could not be read.
func (r *Reading[T]) Get() (T, error) {
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
