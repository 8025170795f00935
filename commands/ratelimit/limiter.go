package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Window is the length of the sliding window.
const Window = time.Minute

// Operation is a limited operation. Its name is stored, so it never changes.
type Operation string

// The limited operations.
const (
	Posts  Operation = "posts"  // requests to import a comment
	Novels Operation = "novels" // creations of a novel, by an upsert or by a comment
	// NovelUpdates are updates of the integration's own novels, also those without changes. The limit is optional.
	NovelUpdates Operation = "novelUpdates"
	Lines        Operation = "lines" // lines of bulk imports
)

// Decision is the result of a take, and the state of the window after it.
type Decision struct {
	Granted   int // permits granted, 0 to the wanted number
	Limit     int // permits in any 60 seconds
	Remaining int // free permits as known to this replica; other replicas may have taken some since

	// Reset is the time until all permits are free, without further takes; 0 when they are.
	Reset time.Duration
	// RetryAfter is 0 if all wanted permits were granted. Otherwise it is the time until one more permit is free, which is
	// exact unless unused permits are returned earlier. It is at most Window plus the length of a lease.
	RetryAfter time.Duration

	// charged is the time by the database's clock from which the granted permits' 60 seconds count. Return needs it.
	charged time.Time
}

// ErrClosed is returned by Take and Return after Close.
var ErrClosed = errors.New("rate limiter is closed")

const (
	closeTimeout  = 2 * time.Second // how long Close waits for running calls
	returnTimeout = 5 * time.Second // time-out of a call without waiting requests
)

// Limiter grants permits. It is safe for concurrent use.
type Limiter struct {
	pool *pgxpool.Pool
	now  func() time.Time

	base    context.Context //nolint:containedctx // for the calls of workers, which outlive the request that started them
	cancel  context.CancelFunc
	workers sync.WaitGroup

	mu      sync.RWMutex
	windows map[key]*window
	closed  bool
}

// New returns a Limiter. The sessions of pool need READ COMMITTED, the default, and should have synchronous_commit=off,
// because every take is its own transaction and a lost one only loses some permits. Set lock_timeout and
// statement_timeout to more than a few hundred milliseconds. A busy window uses one connection at a time. now must be a
// monotonic clock such as time.Now; it measures leases and waits, not the 60 seconds.
func New(pool *pgxpool.Pool, now func() time.Time) *Limiter {
	base, cancel := context.WithCancel(context.Background())
	return &Limiter{pool: pool, now: now, base: base, cancel: cancel, windows: map[key]*window{}}
}

// Take takes up to n permits of at most limit in any 60 seconds. It grants 0 to n permits, as many as are free. A limit
// of 0 or less never grants any; n of 0 or less returns the known state. Take waits for the database, unless a lease or
// a recent refusal decides. On an error, of the database or because ctx is done, it grants nothing.
func (l *Limiter) Take(
	ctx context.Context, integration uuid.UUID, operation Operation, limit, n int,
) (Decision, error) {
	if limit <= 0 {
		return Decision{RetryAfter: Window}, nil
	}
	if n <= 0 {
		return l.Status(integration, operation, limit), nil
	}
	limit = min(limit, math.MaxInt32) // the range of the table's column
	n = min(n, limit)                 // more is never granted

	k := key{integration: integration, operation: operation}
	w, err := l.lock(k)
	if err != nil {
		return Decision{}, err
	}
	now := l.now()
	if d, ok := w.takeFromMemory(now, limit, n); ok {
		w.mu.Unlock()
		return d, nil
	}
	r := &request{limit: limit, wanted: n}
	return l.submit(ctx, k, w, r)
}

// Return returns n unused permits of the decision taken, for instance when a creation turns out to be an update. Call
// it at most once per permit. Returning permits older than Window has no effect. On an error the permits may stay taken
// until their minute ends.
func (l *Limiter) Return(ctx context.Context, integration uuid.UUID, operation Operation, taken Decision, n int) error {
	n = min(n, taken.Granted)
	if n <= 0 {
		return nil
	}
	k := key{integration: integration, operation: operation}
	w, err := l.lock(k)
	if err != nil {
		return err
	}
	if w.returnToLease(l.now(), taken.charged, n) {
		// The worker may have ended when the lease was used up. One must run again to return these permits later.
		l.wakeWorker(k, w) //nolint:contextcheck // a worker serves many requests and outlives this one
		w.mu.Unlock()
		return nil
	}
	_, err = l.submit(ctx, k, w, &request{returned: n, charged: taken.charged})
	return err
}

// Status returns the last known state of a window from memory. An unknown window has all permits free. RetryAfter is
// always 0.
func (l *Limiter) Status(integration uuid.UUID, operation Operation, limit int) Decision {
	if limit <= 0 {
		return Decision{}
	}
	l.mu.RLock()
	w := l.windows[key{integration: integration, operation: operation}]
	l.mu.RUnlock()
	if w == nil {
		return Decision{Limit: limit, Remaining: limit}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status(l.now(), limit)
}

// Close returns leases and waits for the goroutines of the Limiter, for at most two seconds if the database does not
// respond. Takes that already wait are still served; later ones get ErrClosed.
func (l *Limiter) Close() {
	l.mu.Lock()
	l.closed = true
	for _, w := range l.windows {
		w.mu.Lock()
		w.closing = true
		w.signal()
		w.mu.Unlock()
	}
	l.mu.Unlock()

	stop := time.AfterFunc(closeTimeout, l.cancel)
	defer stop.Stop()
	l.workers.Wait()
	l.cancel()
}

// lock returns the locked window of k. It creates the window if necessary. Windows stay in memory: there is at most one
// for each integration and operation.
func (l *Limiter) lock(k key) (*window, error) {
	l.mu.RLock()
	w := l.windows[k]
	l.mu.RUnlock()
	if w == nil {
		l.mu.Lock()
		if w = l.windows[k]; w == nil {
			w = &window{wake: make(chan struct{}, 1), closing: l.closed}
			l.windows[k] = w
		}
		l.mu.Unlock()
	}
	w.mu.Lock()
	if w.closing {
		w.mu.Unlock()
		return nil, ErrClosed
	}
	return w, nil
}

// submit queues a request on the locked window, unlocks it, and waits for the decision.
func (l *Limiter) submit(ctx context.Context, k key, w *window, r *request) (Decision, error) {
	if err := ctx.Err(); err != nil {
		w.mu.Unlock()
		return Decision{}, fmt.Errorf("wait for %s permits: %w", k.operation, err)
	}
	r.deadline, r.hasDeadline = ctx.Deadline()
	r.answered = make(chan struct{})
	w.queue = append(w.queue, r)
	l.wakeWorker(k, w) //nolint:contextcheck // a worker serves many requests and outlives this one
	w.mu.Unlock()

	select {
	case <-r.answered:
		return r.decision, r.err
	case <-ctx.Done():
		w.mu.Lock()
		r.abandoned = true // the next call skips it
		w.mu.Unlock()
		return Decision{}, fmt.Errorf("wait for %s permits: %w", k.operation, ctx.Err())
	}
}
