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

// ErrClosed is returned by Take and Return after Close.
var ErrClosed = errors.New("rate limiter is closed")

const (
	idleTime  = 5 * time.Minute // a window unused for so long leaves memory
	sweepTime = time.Minute     // how often that is looked for
	closeTime = 2 * time.Second // how long Close waits for calls under way
	giveTime  = 5 * time.Second // limit for a call that nobody waits for
)

// Limiter grants permits. All methods may be called from any goroutine.
type Limiter struct {
	pool *pgxpool.Pool
	now  func() time.Time

	base    context.Context //nolint:containedctx // ends the calls of workers, which outlive the request that started them
	cancel  context.CancelFunc
	workers sync.WaitGroup

	mu      sync.RWMutex
	windows map[key]*window
	swept   time.Time
	closed  bool
}

// New returns a Limiter. The sessions of pool should have synchronous_commit=off, since every take is a transaction of
// its own and a lost one only forgets some permits; READ COMMITTED, the default; and a lock_timeout and
// statement_timeout to taste, above a few hundred milliseconds. One connection per busy window is in use at a time. The
// clock now should be monotonic, as time.Now is; it measures leases only.
func New(pool *pgxpool.Pool, now func() time.Time) *Limiter {
	base, cancel := context.WithCancel(context.Background())
	return &Limiter{pool: pool, now: now, base: base, cancel: cancel, windows: map[key]*window{}, swept: now()}
}

// Take takes up to n permits of at most limit in any 60 seconds. It grants what there is, 0 to n. A limit of 0 or less
// grants nothing ever, and n of 0 or less asks what is known without taking any. It waits for the database, unless
// a lease or a recent refusal answers. On an error, of the database or because ctx is done, nothing is granted.
func (l *Limiter) Take(
	ctx context.Context, integration uuid.UUID, operation Operation, limit, n int,
) (Decision, error) {
	if limit <= 0 {
		return refusal(), nil
	}
	if n <= 0 {
		return l.Status(integration, operation, limit), nil
	}
	limit = min(limit, math.MaxInt32) // what the table can count
	n = min(n, limit)                 // and more than that is never granted

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

// Return gives n permits back that taken granted and nobody used, such as those for a creation that turned out to be
// an update. Call it at most once per permit. Permits older than Window are gone already; returning them does nothing.
// On an error they may stay taken for the rest of their minute.
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
		// The lease may have been used up, and nobody there to give it back.
		l.rouse(k, w) //nolint:contextcheck // a worker serves many requests and outlives this one
		w.mu.Unlock()
		return nil
	}
	_, err = l.submit(ctx, k, w, &request{returned: n, charged: taken.charged})
	return err
}

// Status returns the last known state of a window, from memory: a full one when nothing is known. Its RetryAfter is 0.
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

// Close gives leases back and waits for the goroutines of the Limiter to end, for two seconds at most if the database
// does not answer. Takes that wait are still served; later ones get ErrClosed.
func (l *Limiter) Close() {
	l.mu.Lock()
	l.closed = true
	for _, w := range l.windows {
		w.mu.Lock()
		w.closing = true
		w.rouse()
		w.mu.Unlock()
	}
	l.mu.Unlock()

	stop := time.AfterFunc(closeTime, l.cancel)
	defer stop.Stop()
	l.workers.Wait()
	l.cancel()
}

// lock returns the window of k, locked, and makes it if need be.
func (l *Limiter) lock(k key) (*window, error) {
	for {
		l.mu.RLock()
		w, closed := l.windows[k], l.closed
		l.mu.RUnlock()
		if closed {
			return nil, ErrClosed
		}
		if w == nil {
			w = l.open(k)
		}
		w.mu.Lock()
		switch {
		case w.closing:
			w.mu.Unlock()
			return nil, ErrClosed
		case w.dropped: // swept since it was found
			w.mu.Unlock()
		default:
			return w, nil
		}
	}
}

// open returns the window of k, new unless somebody else was faster.
func (l *Limiter) open(k key) *window {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.windows[k]
	if w == nil {
		w = newWindow()
		w.closing = l.closed
		l.windows[k] = w
	}
	return w
}

// sweep drops windows that have been idle for minutes, now and then.
func (l *Limiter) sweep() {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.swept) < sweepTime {
		return
	}
	l.swept = now
	for k, w := range l.windows {
		w.mu.Lock()
		if !w.working && now.Sub(w.takenAt) >= idleTime {
			w.dropped = true
			delete(l.windows, k)
		}
		w.mu.Unlock()
	}
}

// submit queues a request on the locked window, unlocks it, and waits for the answer.
func (l *Limiter) submit(ctx context.Context, k key, w *window, r *request) (Decision, error) {
	if err := ctx.Err(); err != nil {
		w.mu.Unlock()
		return Decision{}, fmt.Errorf("wait for %s permits: %w", k.operation, err)
	}
	r.deadline, r.bounded = ctx.Deadline()
	r.answered = make(chan struct{})
	w.queue = append(w.queue, r)
	l.rouse(k, w) //nolint:contextcheck // a worker serves many requests and outlives this one
	w.mu.Unlock()

	select {
	case <-r.answered:
		return r.decision, r.err
	case <-ctx.Done():
		w.mu.Lock()
		r.abandoned = true // if its call has not been made yet, it is left out
		w.mu.Unlock()
		return Decision{}, fmt.Errorf("wait for %s permits: %w", k.operation, ctx.Err())
	}
}
