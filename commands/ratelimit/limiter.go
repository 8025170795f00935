package ratelimit

import (
	"math"
	"sync"
	"time"

	"github.com/google/uuid"
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

// Key identifies a window.
type Key struct {
	Integration uuid.UUID
	Operation   Operation
}

// Decision is the state of a window, after a request for permits.
type Decision struct {
	Granted   int // permits granted, 0 to the wanted number
	Limit     int // permits in any 60 seconds
	Remaining int // free permits as known to this replica; other replicas may have taken some since

	// Reset is the time until all permits are free, without further grants; 0 when they are.
	Reset time.Duration
	// RetryAfter is 0 if all wanted permits were granted. Otherwise it is the time until one more permit is free, at most
	// Window plus a second, unless the clock of the database was set back.
	RetryAfter time.Duration

	second int64 // in which Take has granted the permits
}

// Limiter remembers the windows as this replica saw them last. It is safe for concurrent use.
type Limiter struct {
	now func() time.Time

	mu      sync.Mutex
	windows map[Key]remembered // at most one for each integration and operation
}

// remembered is a window as it was seen last. freeAt is when a permit is free; zero if one was.
type remembered struct {
	limit, used     int
	resetAt, freeAt time.Time
	cleanedAt       time.Time // when old seconds were deleted last, by the fast path
}

// New returns a Limiter. now must be a monotonic clock such as time.Now; it measures waits, not the 60 seconds.
func New(now func() time.Time) *Limiter {
	return &Limiter{now: now, windows: map[Key]remembered{}}
}

// Refused returns whether the window had no free permit when it was seen last, and how long this lasts.
func (l *Limiter) Refused(k Key, limit int) (retryAfter time.Duration, refused bool) {
	if limit <= 0 {
		return Window, true
	}
	l.mu.Lock()
	w := l.windows[k]
	l.mu.Unlock()
	if retryAfter = w.freeAt.Sub(l.now()); w.limit != limit || retryAfter <= 0 {
		return 0, false
	}
	return retryAfter, true
}

// Status returns the state of a window as this replica knows it. An unknown window has all permits free. RetryAfter is
// always 0.
func (l *Limiter) Status(k Key, limit int) Decision {
	if limit <= 0 {
		return Decision{}
	}
	l.mu.Lock()
	w := l.windows[k]
	l.mu.Unlock()
	reset := w.resetAt.Sub(l.now())
	if reset <= 0 {
		return Decision{Limit: limit, Remaining: limit}
	}
	return Decision{Limit: limit, Remaining: min(limit, max(0, limit-w.used)), Reset: reset}
}

// remember stores windows after their grants are committed.
func (l *Limiter) remember(grants *Grants) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for k, w := range grants.windows {
		seen := remembered{limit: w.limit, used: w.used, cleanedAt: l.windows[k].cleanedAt}
		if w.used > 0 {
			seen.resetAt = now.Add(w.until(math.MaxInt64))
		}
		if w.used >= w.limit && !w.isPartial {
			seen.freeAt = now.Add(w.until(w.used - w.limit + 1))
		}
		l.windows[k] = seen
	}
}

// isDirty reports, about once a second for each window, that old seconds are to be deleted.
func (l *Limiter) isDirty(k Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	w, now := l.windows[k], l.now()
	if now.Sub(w.cleanedAt) < time.Second {
		return false
	}
	w.cleanedAt = now
	l.windows[k] = w
	return true
}

// returned stores that n permits of a window are free again.
func (l *Limiter) returned(k Key, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w, ok := l.windows[k]; ok {
		w.used, w.freeAt = max(0, w.used-n), time.Time{}
		l.windows[k] = w
	}
}
