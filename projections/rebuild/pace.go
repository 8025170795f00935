package rebuild

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"novelgate/events"
	"novelgate/events/eventlog"
)

// When a rebuild yields. A rebuild at full speed takes as much of the processors as it gets; whoever waits for an
// answer comes first.
const (
	lookEvery   = 200 * time.Millisecond
	busyAppends = 100 // events a second from which somebody is taken to wait for answers
	restFactor  = 2   // how long it rests, in terms of how long it has worked
	overtaking  = 0.8 // how fast the log may grow, at most, compared with who works it off and rests
)

// grownSQL counts what was appended behind ($1, $2), up to $3.
const grownSQL = `SELECT count(*) FROM (
    SELECT FROM events WHERE (transaction_id, position) > ($1, $2) ORDER BY transaction_id, position LIMIT $3
) AS e`

// pace tells whether others append.
type pace struct {
	now  func() time.Time // nil: never yield
	rate atomic.Int64     // events a second that are appended
}

func (p *pace) busy() bool { return p.rate.Load() >= busyAppends }

// watch looks at the log until the returned function is called, which waits for the last look.
func (r *rebuild) watch(ctx context.Context) (stop func()) {
	if r.pace.now == nil {
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
			r.pace.rate.Store(int64(grown / lookEvery.Seconds()))
			if r.pace.busy() && !told {
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

// yield carries a piece of work out. While others append it then rests for twice as long as that took.
func (r *rebuild) yield(ctx context.Context, work func() error) error {
	return r.yieldIf(ctx, func(time.Duration) bool { return true }, work)
}

// yieldAndOvertake is yield for some of the events that are appended meanwhile: it rests only if the work, rests
// included, is done faster than there is more to do.
func (r *rebuild) yieldAndOvertake(ctx context.Context, events int, work func() error) error {
	return r.yieldIf(ctx, func(took time.Duration) bool {
		return float64(r.pace.rate.Load())*(1+restFactor)*took.Seconds() < float64(events)*overtaking
	}, work)
}

func (r *rebuild) yieldIf(ctx context.Context, may func(took time.Duration) bool, work func() error) error {
	if r.pace.now == nil {
		return work()
	}
	begun := r.pace.now()
	if err := work(); err != nil {
		return err
	}
	took := r.pace.now().Sub(begun)
	if r.pace.busy() && may(took) && !eventlog.Sleep(ctx, restFactor*took) {
		return ctx.Err()
	}
	return nil
}

// standAside keeps all but every third worker waiting while others append, until nothing is left to do.
func (r *rebuild) standAside(ctx context.Context, worker int, nothingLeft <-chan struct{}) error {
	for worker%3 > 0 && r.pace.busy() {
		select {
		case <-nothingLeft:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookEvery):
		}
	}
	return nil
}
