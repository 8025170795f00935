package ratelimit

import (
	_ "embed"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

var (
	//go:embed read.sql
	readSQL string
	//go:embed grant.sql
	grantSQL string
)

// Grants are the permits that one transaction grants, after it has locked out all other grants. Create it with
// NewGrants.
type Grants struct {
	limiter *Limiter
	windows map[Key]*window
	isRead  bool
}

// window is a window as a transaction has read it, with its own grants.
type window struct {
	limit   int
	granted int // by this transaction
	used    int // permits that count, with those granted
	// reset is the time until none of the permits counts.
	reset time.Duration
	// free is the time until one more permit is free, if all are used; 0: not known.
	free time.Duration
}

// NewGrants returns Grants without windows.
func (l *Limiter) NewGrants() *Grants { return &Grants{limiter: l, windows: map[Key]*window{}} }

// Want adds a window with its limit.
func (g *Grants) Want(k Key, limit int) { g.windows[k] = &window{limit: min(limit, math.MaxInt32)} }

// parameters returns the windows that keep returns true for, as parameters of a statement.
func (g *Grants) parameters(keep func(*window) bool) (
	windows []*window, integrations []uuid.UUID, operations []string, limits, numbers []int32,
) {
	for k, w := range g.windows {
		if keep(w) {
			windows, integrations = append(windows, w), append(integrations, k.Integration)
			operations = append(operations, string(k.Operation))
			limits, numbers = append(limits, int32(w.limit)), append(numbers, int32(w.granted)) //nolint:gosec // at most the limit
		}
	}
	return windows, integrations, operations, limits, numbers
}

// QueueRead queues the statement that reads the windows.
func (g *Grants) QueueRead(batch *pgx.Batch) {
	g.isRead = true
	windows, integrations, operations, limits, _ := g.parameters(func(*window) bool { return true })
	if len(windows) == 0 {
		return
	}
	batch.Queue(readSQL, integrations, operations, limits).Query(func(rows pgx.Rows) error {
		var n, used int
		var reset, free float64 // seconds
		_, err := pgx.ForEachRow(rows, []any{&n, &used, &reset, &free}, func() error {
			w := windows[n-1]
			w.used, w.reset, w.free = used, seconds(max(0, reset)), seconds(free)
			return nil
		})
		if err != nil {
			return fmt.Errorf("read permits: %w", err)
		}
		return nil
	})
}

// seconds rounds up, to the microseconds of the database.
func seconds(s float64) time.Duration { return time.Duration(math.Ceil(s*1e6)) * time.Microsecond }

// Take grants up to n permits, as many as are free. Before a read it grants all: then the statement of QueueGrant fails
// if they are not free.
func (g *Grants) Take(k Key, n int) Decision {
	w := g.windows[k]
	granted := n
	if g.isRead {
		granted = max(0, min(n, w.limit-w.used))
	}
	w.granted += granted
	w.used += granted
	d := Decision{Granted: granted, Limit: w.limit, Remaining: max(0, w.limit-w.used)}
	if granted < n {
		d.RetryAfter = w.free
		if w.limit <= 0 {
			d.RetryAfter = Window
		}
	}
	return d
}

// QueueGrant queues the statement that stores the granted permits. It fails with the SQLSTATE NG001 if they are not
// free.
func (g *Grants) QueueGrant(batch *pgx.Batch) {
	windows, integrations, operations, limits, numbers := g.parameters(func(w *window) bool { return w.granted > 0 })
	if len(windows) == 0 {
		return
	}
	batch.Queue(grantSQL, integrations, operations, limits, numbers).Query(func(rows pgx.Rows) error {
		var n, used int
		_, err := pgx.ForEachRow(rows, []any{&n, &used, nil}, func() error {
			windows[n-1].used, windows[n-1].reset = used, Window
			return nil
		})
		if err != nil {
			return fmt.Errorf("grant permits: %w", err)
		}
		return nil
	})
}

// Committed makes the Limiter remember the windows, once the transaction has committed, or has ended without grants.
func (g *Grants) Committed() { g.limiter.remember(g) }
