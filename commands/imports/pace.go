package imports

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
)

// Throttling of imports. A command of the live interface waits for the batch in flight. So while there are
// such commands, imports use small batches and leave processors to them.
const (
	checkEvery = 250 * time.Millisecond
	busyRate   = 20          // events of other commands a second; from here on imports are throttled
	fullGroup  = chunkLines  // concurrent lines; the committer's share of an integration limits them, too
	smallGroup = 16          // concurrent lines while throttled
	busyFor    = time.Second // after the last check that found the log busy
	maxCounted = 10_000      // events that are read for a count
)

// otherEventsSQL counts, of the first $2 events from the position $1 on, those that no line of an import has caused.
const otherEventsSQL = `SELECT count(*) FILTER (WHERE request_id IS NULL OR NOT starts_with(request_id, '` + requestPrefix + `')) FROM (
    SELECT request_id FROM events WHERE log_index >= $1 ORDER BY log_index LIMIT $2
) AS e`

// pace throttles the workers of a replica while the log shows that any replica executes commands of the live interface.
type pace struct {
	pool *pgxpool.Pool
	now  func() time.Time

	working sync.Mutex // held by the one worker that executes lines while throttled

	mu        sync.Mutex
	counted   events.Position // end of the log at checkedAt; 0 before the first check
	checkedAt time.Time
	busyUntil time.Time
}

func newPace(pool *pgxpool.Pool, now func() time.Time) *pace { return &pace{pool: pool, now: now} }

// group returns the number of lines to execute concurrently.
func (p *pace) group(ctx context.Context) int {
	if p.busy(ctx) {
		return smallGroup
	}
	return fullGroup
}

// enter waits for the other worker while throttled. The caller must call leave.
func (p *pace) enter(ctx context.Context) (leave func()) {
	if !p.busy(ctx) {
		return func() {}
	}
	p.working.Lock()
	return p.working.Unlock
}

// rest pauses while throttled, for as long as the work before it took.
func (p *pace) rest(ctx context.Context, took time.Duration) {
	if p.busy(ctx) {
		eventlog.Sleep(ctx, took)
	}
}

// busy reports whether imports are throttled. It counts events at most once in checkEvery. It ignores a count since
// four times checkEvery or more, because its events may be old.
func (p *pace) busy(ctx context.Context) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if since := now.Sub(p.checkedAt); since >= checkEvery {
		n, err := p.otherEvents(ctx)
		if err == nil && float64(n) >= busyRate*since.Seconds() && since < 4*checkEvery {
			p.busyUntil = now.Add(busyFor)
		}
		p.checkedAt = now
	}
	return now.Before(p.busyUntil)
}

// otherEvents counts the events of other commands since the last call; 0 for the first call.
func (p *pace) otherEvents(ctx context.Context) (n int, err error) {
	if p.counted > 0 {
		row := p.pool.QueryRow(ctx, otherEventsSQL, p.counted, maxCounted)
		if err := row.Scan(&n); err != nil {
			return 0, err
		}
	}
	end, err := eventlog.End(ctx, p.pool)
	p.counted = end.Position
	return n, err
}
