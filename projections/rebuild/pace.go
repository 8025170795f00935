package rebuild

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"novelgate/events"
	"novelgate/events/eventlog"
)

// When a rebuild yields. A rebuild at full speed takes as much of the processors as it gets; whoever waits for an
// answer comes first.
const (
	lookEvery   = 200 * time.Millisecond
	busyAppends = 100 // events a second from which somebody is taken to wait for answers
	slowdown    = 3   // of one worker that works and rests
	overtaking  = 0.8 // how fast the log may grow, at most, compared with who works it off and rests
)

// grownSQL counts what was appended behind ($1, $2), up to $3.
const grownSQL = `SELECT count(*) FROM (
    SELECT FROM events WHERE (transaction_id, position) > ($1, $2) ORDER BY transaction_id, position LIMIT $3
) AS e`

// busy reports whether others append.
func (r *rebuild) busy() bool { return r.appends.Load() >= busyAppends }

// watch looks at the log until the returned function is called, which waits for the last look.
func (r *rebuild) watch(ctx context.Context) (stop func()) {
	if r.Now == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		var end events.Position
		told := false
		for eventlog.Sleep(ctx, lookEvery) {
			grown, err := r.grown(ctx, &end)
			if err != nil {
				r.Logger.DebugContext(ctx, "The growth of the log is unknown for now", slog.Any("error", err))
				continue // as before
			}
			r.appends.Store(int64(grown / lookEvery.Seconds()))
			if r.busy() && !told {
				told = true
				r.Logger.InfoContext(ctx, "Others append: the rebuild yields to them")
			}
		}
	})
	return func() {
		cancel()
		watching.Wait()
	}
}

// grown returns how many events were appended since the last look, none at the first one, and moves end.
func (r *rebuild) grown(ctx context.Context, end *events.Position) (float64, error) {
	const most = 10_000
	var n float64
	if *end != (events.Position{}) {
		if err := r.pool.QueryRow(ctx, grownSQL, end.TransactionID, end.Ordinal, most).Scan(&n); err != nil {
			return 0, err
		}
	}
	var err error
	*end, err = eventlog.Last(ctx, r.pool)
	return n, err
}

// yield carries out the work of writing a chunk. While others append, chunks are written one at a time, and it then
// rests twice as long as that took. Behind the events that were in the log at the beginning, it rests only if the work,
// rests included, is done faster than the log grows.
func (r *rebuild) yield(ctx context.Context, chunk *eventlog.Chunk, work func() error) error {
	if r.Now == nil {
		return work()
	}
	begun := r.Now()
	if err := work(); err != nil {
		return err
	}
	took := r.Now().Sub(begun)
	overtakes := float64(r.appends.Load())*slowdown*took.Seconds() < float64(chunk.Read)*overtaking
	if r.busy() && (overtakes || r.record.phase != Following) {
		eventlog.Sleep(ctx, (slowdown-1)*took) // or to the end of ctx, which the caller notices
	}
	return nil
}
