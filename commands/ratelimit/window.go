package ratelimit

import (
	"sync"
	"time"
)

const (
	leaseShare  = 100                    // a lease is one hundredth of the remaining permits
	leaseTime   = 200 * time.Millisecond // how long a lease is valid
	leaseGrace  = 100 * time.Millisecond // after a lease: how long its unused permits wait for the next database call
	refusalTime = 100 * time.Millisecond // how long a refusal is cached
)

// window is the state of one window in this replica, with the requests that wait for it.
type window struct {
	mu      sync.Mutex
	queue   []*request    // in order of arrival
	working bool          // a worker is running
	wake    chan struct{} // wakes the worker
	closing bool

	limit      int       // of the newest take
	answeredAt time.Time // when the newest database call with a take was answered

	lease   lease
	returns []charge // to return with the next database call

	used        int       // permits in use after the latest database call, and those granted from the lease since
	resetAt     time.Time // when all permits are free
	freeAt      time.Time // when one more permit is free
	refuseUntil time.Time // end of a cached refusal
}

// lease is a number of permits that this replica may grant from memory. They count from the end of the lease
// (charge.at).
type lease struct {
	charge
	ends time.Time // by this process's clock; the same moment as charge.at or earlier
}

// charge is a number of permits and the time from which their 60 seconds count, by the database's clock.
type charge struct {
	at time.Time
	n  int
}

// request is a Take or a Return that waits for a database call. decision and err are set before answered is closed.
type request struct {
	limit, wanted int       // Take
	returned      int       // Return: number of permits
	charged       time.Time // Return: time of their charge

	deadline    time.Time
	hasDeadline bool
	abandoned   bool // the caller no longer waits

	answered chan struct{}
	decision Decision
	err      error
}

// signal wakes the window's worker, if it has one.
func (w *window) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // already woken
	}
}

// takeFromMemory decides a take from the lease or from a cached refusal. It returns false when neither applies. A
// changed limit ends both.
func (w *window) takeFromMemory(now time.Time, limit, n int) (Decision, bool) {
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

// returnToLease returns permits to the running lease. It returns false when they are not from this lease.
func (w *window) returnToLease(now, charged time.Time, n int) bool {
	if !charged.Equal(w.lease.at) || !now.Before(w.lease.ends) {
		return false
	}
	w.lease.n += n
	w.used -= n
	return true
}

// endLease ends the lease. The next database call returns its unused permits.
func (w *window) endLease() {
	if w.lease.n > 0 {
		w.returns = append(w.returns, w.lease.charge)
	}
	w.lease = lease{}
}

// status returns the last known state.
func (w *window) status(now time.Time, limit int) Decision {
	if !now.Before(w.resetAt) {
		return Decision{Limit: limit, Remaining: limit}
	}
	return Decision{Limit: limit, Remaining: min(limit, max(0, limit-w.used)), Reset: w.resetAt.Sub(now)}
}
