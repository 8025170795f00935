package rebuild

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"novelgate/events"
	"novelgate/events/eventlog"
)

// Throttling. A rebuild at full speed takes all available processor time; requests of clients come first.
const (
	watchInterval = 200 * time.Millisecond
	busyAppends   = 100 // clients count as active if the log grows by this many events a second
	slowdown      = 3   // duration of a throttled rebuild, with pauses, divided by the duration of its work
	maxGrowth     = 0.8 // in Following, no pause if the log grows faster than this share of the throttled speed
)

// grownSQL counts the events after ($1, $2), up to $3.
const grownSQL = `SELECT count(*) FROM (
    SELECT FROM events WHERE (transaction_id, position) > ($1, $2) ORDER BY transaction_id, position LIMIT $3
) AS e`

// busy reports whether clients append.
func (r *rebuild) busy() bool { return r.appends.Load() >= busyAppends }

// watchAppends measures the growth of the log until stop is called, which waits for the goroutine.
func (r *rebuild) watchAppends(ctx context.Context) (stop func()) {
	if r.Now == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		var end events.Position
		logged := false
		for eventlog.Sleep(ctx, watchInterval) {
			grown, err := r.grown(ctx, &end)
			if err != nil {
				r.Logger.DebugContext(ctx, "The growth of the log is unknown for now", slog.Any("error", err))
				continue // keep the last figure
			}
			r.appends.Store(int64(grown / watchInterval.Seconds()))
			if r.busy() && !logged {
				logged = true
				r.Logger.InfoContext(ctx, "Clients append: the rebuild slows down")
			}
		}
	})
	return func() {
		cancel()
		watching.Wait()
	}
}

// grown returns the number of events after end, at most 10,000, and moves end to the end of the log. For a zero end it
// returns 0.
func (r *rebuild) grown(ctx context.Context, end *events.Position) (float64, error) {
	const maxEvents = 10_000
	var n float64
	if *end != (events.Position{}) {
		if err := r.pool.QueryRow(ctx, grownSQL, end.TransactionID, end.Ordinal, maxEvents).Scan(&n); err != nil {
			return 0, err
		}
	}
	var err error
	*end, err = eventlog.Last(ctx, r.pool)
	return n, err
}

// throttle calls work, which writes a chunk. While clients append, chunks are written one at a time, each followed by a
// pause of twice its time. In the phase Following it pauses only if the rebuild, with pauses, is faster than the growth
// of the log.
func (r *rebuild) throttle(ctx context.Context, chunk *eventlog.Chunk, work func() error) error {
	if r.Now == nil {
		return work()
	}
	begun := r.Now()
	if err := work(); err != nil {
		return err
	}
	took := r.Now().Sub(begun)
	throttledSpeed := float64(chunk.Read) / (slowdown * took.Seconds()) // events a second
	gains := float64(r.appends.Load()) < maxGrowth*throttledSpeed
	if r.busy() && (gains || r.record.phase != Following) {
		eventlog.Sleep(ctx, (slowdown-1)*took) // ctx may end first; the caller checks it
	}
	return nil
}
