package imports

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
)

// When imports yield. A command of the live interface waits for the batch in its lane, so batches must be small while
// there are such commands, and leave them the processors.
const (
	lookEvery   = 250 * time.Millisecond
	busyCommand = 20          // events a second of other commands from which imports yield
	fullGroup   = chunkLines  // lines under way at a time; the committer's share of an integration bounds them, too
	smallGroup  = 32          // the same while others append
	restFactor  = 2           // rest so many times as long as the work took
	stayBusy    = time.Second // after the latest look that found others
	mostGrowth  = 10_000      // events that a look counts
)

// grownSQL counts the events after ($1, $2), up to $3, that no line of an import has caused.
const grownSQL = `SELECT count(*) FILTER (WHERE request_id IS NULL OR NOT starts_with(request_id, '` + requestPrefix + `')) FROM (
    SELECT request_id FROM events WHERE (transaction_id, position) > ($1, $2) ORDER BY transaction_id, position LIMIT $3
) AS e`

// pace lets the workers of a replica yield to commands of the live interface, of any replica: it looks at the log.
type pace struct {
	pool *pgxpool.Pool
	now  func() time.Time

	working sync.Mutex // held by the one worker of the replica that works and rests while others append

	mu        sync.Mutex
	end       events.Position
	looked    time.Time
	busyUntil time.Time
}

func newPace(pool *pgxpool.Pool, now func() time.Time) *pace { return &pace{pool: pool, now: now} }

// group returns how many lines may be under way.
func (p *pace) group(ctx context.Context) int {
	if p.busy(ctx) {
		return smallGroup
	}
	return fullGroup
}

// turn waits for the other worker while others append. leave ends the turn.
func (p *pace) turn(ctx context.Context) (leave func()) {
	if !p.busy(ctx) {
		return func() {}
	}
	p.working.Lock()
	return p.working.Unlock
}

// rest pauses after work that took a time, if others append.
func (p *pace) rest(ctx context.Context, took time.Duration) {
	if p.busy(ctx) {
		eventlog.Sleep(ctx, restFactor*took)
	}
}

func (p *pace) busy(ctx context.Context) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if since := now.Sub(p.looked); since >= lookEvery {
		n, err := p.grown(ctx)
		if err == nil && float64(n) >= busyCommand*since.Seconds() && since < 4*lookEvery {
			p.busyUntil = now.Add(stayBusy)
		}
		p.looked = now
	}
	return now.Before(p.busyUntil)
}

// grown returns how many events others have appended since the last look, none at the first one.
func (p *pace) grown(ctx context.Context) (n int, err error) {
	if p.end != (events.Position{}) {
		if err := p.pool.QueryRow(ctx, grownSQL, p.end.TransactionID, p.end.Ordinal, mostGrowth).Scan(&n); err != nil {
			return 0, err
		}
	}
	p.end, err = eventlog.Last(ctx, p.pool)
	return n, err
}
