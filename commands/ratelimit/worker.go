package ratelimit

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/database"
)

// group is the input of one database call. The call returns permits and then takes some for the requests that arrived
// during the previous call.
type group struct {
	requests []*request
	limit    int
	wanted   int
	lease    bool // also take a lease

	returnedAt []time.Time // times of the charges of the returned permits
	returned   []int64     // number of returned permits of each charge
}

// wakeWorker wakes the worker of the locked window, or starts one.
func (l *Limiter) wakeWorker(k key, w *window) {
	if w.working {
		w.signal()
		return
	}
	w.working = true
	l.workers.Go(func() { l.work(k, w) })
}

// work makes calls for one window until no request waits and no permits are left to return.
func (l *Limiter) work(k key, w *window) {
	for {
		g, wait := w.next(l.now())
		switch {
		case g != nil:
			l.call(k, w, g)
		case wait > 0:
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-w.wake:
			}
			timer.Stop()
		default:
			return
		}
	}
}

// call executes a group and completes its requests.
func (l *Limiter) call(k key, w *window, g *group) {
	ctx, cancel := g.context(l.base)
	defer cancel()
	sent := l.now() // before the database reads its clock, so that the lease ends here first
	r, err := g.take(ctx, l.pool, k)
	w.complete(g, r, err, sent, l.now())
}

// context returns a context that ends at the latest deadline of the group's requests: an earlier end would fail the
// others.
func (g *group) context(base context.Context) (context.Context, context.CancelFunc) {
	if len(g.requests) == 0 {
		return context.WithTimeout(base, returnTimeout)
	}
	var latest time.Time
	for _, r := range g.requests {
		if !r.hasDeadline {
			return context.WithCancel(base)
		}
		if r.deadline.After(latest) {
			latest = r.deadline
		}
	}
	return context.WithDeadline(base, latest)
}

// next returns the group of the next call. Without one it returns the time until unused permits of the lease must be
// returned, or 0 to end the worker.
func (w *window) next(now time.Time) (*group, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.serveFromMemory(now)
	requests := w.dequeue()
	wait := w.lease.ends.Add(leaseGrace).Sub(now)
	if len(requests) > 0 || w.closing || wait <= 0 {
		w.endLease() // also a running lease, because the call may take a new one
	}
	if len(requests) == 0 && len(w.returns) == 0 {
		if w.lease.n > 0 {
			return nil, wait
		}
		w.working = false
		return nil, 0
	}

	g := &group{requests: requests, limit: w.limit, returnedAt: []time.Time{}, returned: []int64{}}
	for _, c := range w.returns {
		g.addReturn(c)
	}
	w.returns = nil
	for _, r := range requests {
		if r.returned > 0 {
			g.addReturn(charge{at: r.charged, n: r.returned})
			continue
		}
		g.limit = r.limit
		g.wanted += r.wanted
	}
	// A lease saves calls only if they come faster than leases end.
	g.lease = g.wanted > 0 && !w.closing && now.Sub(w.answeredAt) < leaseTime
	return g, 0
}

// serveFromMemory decides requests that arrived during the call that took a lease or got a refusal. Otherwise the next
// call would end that lease, and two alternating requests would end every lease.
func (w *window) serveFromMemory(now time.Time) {
	for len(w.queue) > 0 {
		r := w.queue[0]
		if !r.abandoned {
			if r.returned > 0 || r.limit != w.limit {
				return
			}
			d, ok := w.takeFromMemory(now, r.limit, r.wanted)
			if !ok {
				return
			}
			r.decision = d
			close(r.answered)
		}
		w.queue = w.queue[1:]
	}
}

// dequeue removes the requests at the head of the queue that have the same limit. It drops abandoned ones.
func (w *window) dequeue() []*request {
	var taken []*request
	limit := 0
	for len(w.queue) > 0 {
		r := w.queue[0]
		if !r.abandoned {
			if limit != 0 && r.limit != 0 && r.limit != limit {
				break
			}
			limit = max(limit, r.limit)
			taken = append(taken, r)
		}
		w.queue = w.queue[1:]
	}
	if len(w.queue) == 0 {
		w.queue = nil
	}
	return taken
}

func (g *group) addReturn(c charge) {
	g.returnedAt = append(g.returnedAt, c.at)
	g.returned = append(g.returned, int64(c.n))
}

// complete stores the outcome of a call that was sent and answered at these times, and completes its requests in the
// order of arrival.
func (w *window) complete(g *group, r receipt, err error, sent, answered time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() {
		for _, q := range g.requests {
			close(q.answered)
		}
	}()
	if err != nil {
		// The outcome of the returns is unknown. They are not repeated: permits returned twice would be granted twice.
		for _, q := range g.requests {
			q.err = err
		}
		return
	}
	w.update(g, r, sent, answered)

	state := w.status(answered, g.limit)
	left := r.granted
	for _, q := range g.requests {
		if q.wanted == 0 {
			continue
		}
		q.decision = state
		q.decision.Granted = min(q.wanted, left)
		q.decision.charged = r.grantedAt
		if q.decision.Granted < q.wanted {
			q.decision.RetryAfter = r.retryAfter
		}
		left -= q.decision.Granted
	}
}

// update updates the window from a receipt.
func (w *window) update(g *group, r receipt, sent, answered time.Time) {
	w.used = r.used - r.leased
	w.resetAt = answered.Add(r.resetAfter)
	if g.wanted > 0 {
		w.answeredAt = answered
	}
	w.lease = lease{charge: charge{at: r.leasedUntil, n: r.leased}, ends: sent.Add(leaseTime)}
	w.refuseUntil = time.Time{}
	if g.limit != w.limit { // changed during the call
		w.endLease()
		return
	}
	if r.retryAfter > 0 {
		// freeAt counts from the response, so it is never too early. refuseUntil counts from the request, so it is never too
		// late.
		w.freeAt = answered.Add(r.retryAfter)
		w.refuseUntil = sent.Add(min(r.retryAfter, refusalTime))
	}
}

//go:embed take.sql
var takeSQL string

// key identifies a window.
type key struct {
	integration uuid.UUID
	operation   Operation
}

// receipt is the result of a database call. Times are by the database's clock. Durations start when the database
// decides.
type receipt struct {
	granted, leased, used  int
	grantedAt, leasedUntil time.Time
	retryAfter, resetAfter time.Duration
}

// take executes the call in one statement, which is its own transaction. After an error the outcome is unknown.
func (g *group) take(ctx context.Context, pool *pgxpool.Pool, k key) (r receipt, err error) {
	share := 0
	if g.lease {
		share = leaseShare
	}
	err = database.Retry(ctx, pool, func(again bool) error {
		if again {
			// The first attempt may have succeeded. Permits taken twice are only missing for a minute, but permits returned
			// twice would be granted twice.
			g.returnedAt, g.returned = []time.Time{}, []int64{}
		}
		return pool.QueryRow(ctx, takeSQL,
			k.integration, string(k.operation), g.limit, g.wanted, share, leaseTime, g.returnedAt, g.returned,
		).Scan(&r.granted, &r.leased, &r.used, &r.grantedAt, &r.leasedUntil, &r.retryAfter, &r.resetAfter)
	})
	if err != nil {
		return receipt{}, fmt.Errorf("take %s permits: %w", k.operation, err)
	}
	return r, nil
}
