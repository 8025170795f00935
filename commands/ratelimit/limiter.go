package ratelimit

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/events/eventlog"
	"novelgate/internal/database"
)

// Window is the length of the sliding window.
const Window = time.Minute

// Operation is a limited operation. Its name is stored, so it never changes.
type Operation string

// The limited operations.
const (
	Posts  Operation = "posts"  // requests to import a comment
	Novels Operation = "novels" // creations of a novel, by an upsert or by a comment
	Lines  Operation = "lines"  // lines of bulk imports
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
	// Window, unless the clock of the database was set back.
	RetryAfter time.Duration
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

// Used returns how many permits of an integration count now, by operation, in all replicas.
func Used(ctx context.Context, db database.Querier, integration uuid.UUID) (map[Operation]int, error) {
	operations := []Operation{Posts, Novels, Lines}
	used := map[Operation]int{}
	rows, _ := db.Query(ctx, readSQL, slices.Repeat([]uuid.UUID{integration}, len(operations)), operations,
		make([]int32, len(operations))) // ForEachRow has the error
	var n, permits int
	_, err := pgx.ForEachRow(rows, []any{&n, &permits, nil, nil}, func() error {
		used[operations[n-1]] = permits
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read permits: %w", err)
	}
	return used, nil
}

// remember stores windows after their grants are committed.
func (l *Limiter) remember(grants *Grants) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for k, w := range grants.windows {
		seen := remembered{limit: w.limit, used: w.used}
		if w.used > 0 {
			seen.resetAt = now.Add(w.reset)
		}
		if w.used >= w.limit && w.free > 0 {
			seen.freeAt = now.Add(w.free)
		}
		l.windows[k] = seen
	}
}

// cleanSQL deletes grants that no longer count and, after the clock was set back, those that are too far ahead.
const cleanSQL = `DELETE FROM rate_limits
WHERE granted_at NOT BETWEEN now() - interval '1 minute' - interval '1 second' AND now() + interval '1 minute'`

// Run deletes old grants, twice a minute, until ctx ends.
func (l *Limiter) Run(ctx context.Context, db database.Execer, logger *slog.Logger) {
	for {
		if _, err := db.Exec(ctx, cleanSQL); err != nil && ctx.Err() == nil {
			logger.WarnContext(ctx, "The permits of past minutes could not be deleted", slog.Any("error", err))
		}
		if !eventlog.Sleep(ctx, Window/2) {
			return
		}
	}
}
