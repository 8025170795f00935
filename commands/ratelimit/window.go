package ratelimit

import (
	"sync"
	"time"
)

const (
	leaseShare  = 100                    // a lease is one permit in so many of those that remain
	leaseTime   = 200 * time.Millisecond // how long it may be spent
	leaseGrace  = 100 * time.Millisecond // how long its rest waits for another call to ride on
	refusalTime = 100 * time.Millisecond // how long a full window is taken for full without asking
)

// window is what one replica knows about one window, and who waits for it.
type window struct {
	mu      sync.Mutex
	queue   []*request    // in order of arrival
	working bool          // a worker makes calls, or waits for the lease to end
	wake    chan struct{} // tells the worker that there is something to do
	closing bool
	dropped bool // no longer in the Limiter's map

	limit    int       // of the newest take
	takenAt  time.Time // of the newest take
	calledAt time.Time // when the newest call with a take in it was answered

	lease   lease
	returns []charge // to be given back with the next call

	used        int       // permits that counted when last heard, those spent from the lease included
	resetAt     time.Time // when none of them counts any more
	freeAt      time.Time // when one more is free, if there is none
	refuseUntil time.Time // up to here the answer would be no
}

// lease is a number of permits that may be spent without asking.
type lease struct {
	charge
	ends time.Time // on this process's clock; no later than charge.at on that of the database
}

// charge is a number of permits and where they count, on the clock of the database.
type charge struct {
	at time.Time
	n  int
}

// request is a Take or a Return that waits for a call. After answered is closed, decision and err hold.
type request struct {
	limit, wanted int       // Take
	returned      int       // Return: how many …
	charged       time.Time // … and of which charge

	deadline  time.Time
	bounded   bool // it has a deadline
	abandoned bool

	answered chan struct{}
	decision Decision
	err      error
}

func newWindow() *window {
	return &window{wake: make(chan struct{}, 1)}
}

// rouse tells the worker, if there is one, to look again.
func (w *window) rouse() {
	select {
	case w.wake <- struct{}{}:
	default: // it has been told
	}
}

// takeFromMemory answers a take if a lease or a recent refusal can.
func (w *window) takeFromMemory(now time.Time, limit, n int) (Decision, bool) {
	w.takenAt = now
	if limit != w.limit {
		w.endLease()
		w.limit, w.refuseUntil = limit, time.Time{}
		return Decision{}, false
	}
	if n <= w.lease.n && now.Before(w.lease.ends) {
		w.lease.n -= n
		w.used += n
		d := w.status(now, limit)
		d.Granted, d.charged = n, w.lease.at
		return d, true
	}
	if now.Before(w.refuseUntil) {
		d := w.status(now, limit)
		d.RetryAfter = w.freeAt.Sub(now)
		return d, true
	}
	return Decision{}, false
}

// returnToLease takes permits back that were spent from the running lease. It reports false if they were not.
func (w *window) returnToLease(now, charged time.Time, n int) bool {
	if !charged.Equal(w.lease.at) || !now.Before(w.lease.ends) {
		return false
	}
	w.lease.n += n
	w.used -= n
	return true
}

// endLease lets what is left of the lease go back with the next call.
func (w *window) endLease() {
	if w.lease.n > 0 {
		w.returns = append(w.returns, w.lease.charge)
	}
	w.lease = lease{}
}

// status is what is known without asking.
func (w *window) status(now time.Time, limit int) Decision {
	if !now.Before(w.resetAt) {
		return Decision{Limit: limit, Remaining: limit}
	}
	return Decision{Limit: limit, Remaining: min(limit, max(0, limit-w.used)), Reset: w.resetAt.Sub(now)}
}
