package committer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/eventlog"
)

// conflictsBeforeBisect is how often a batch is decided again as a whole.
const conflictsBeforeBisect = 3

// conflictsAlone is how often a command that stands alone is decided again before it is given up.
const conflictsAlone = 12

// connectionAttempts is how many connections are tried before the database counts as away: after a restart of
// the database some pooled connections are dead.
const connectionAttempts = 3

// run is one batch on its way into the log.
type run struct {
	*Committer
	id      uuid.UUID         // in the metadata of every event of the batch
	permits *permits          // creations that the batch may make
	spent   map[uuid.UUID]int // … and those that the current attempt uses
	claimed map[ref]struct{}  // keys of our own events, found after a lost answer, that are answered as first delivery
}

// run carries out jobs and answers each of them.
func (c *Committer) run(jobs []*job) {
	ctx, cancel := context.WithTimeout(context.Background(), c.config.Timeout)
	defer cancel()
	r := &run{Committer: c, id: uuid.New(), permits: newPermits(c.config.Permits), claimed: map[ref]struct{}{}}
	r.settle(ctx, jobs)
	if err := r.permits.returnUnused(); err != nil {
		c.config.Logger.WarnContext(ctx, "could not return creation permits", slog.Any("error", err))
	}
}

// settle commits jobs together if it can, in halves if it must, and answers them.
func (r *run) settle(ctx context.Context, jobs []*job) {
	err := r.commit(ctx, jobs)
	switch {
	case err == nil:
		answer(jobs, nil)
	case errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown):
		r.config.Logger.WarnContext(ctx, "batch not committed", slog.Int("commands", len(jobs)), slog.Any("error", err))
		answer(jobs, err)
	case len(jobs) == 1:
		r.config.Logger.ErrorContext(ctx, "command failed", slog.String("requestId", jobs[0].caller.RequestID), slog.Any("error", err))
		answer(jobs, err)
	default:
		r.config.Metrics.bisections.Inc()
		half := len(jobs) / 2
		r.settle(ctx, jobs[:half])
		r.settle(ctx, jobs[half:])
	}
}

// answer lets the submitters go on: with the result that was decided, or with err.
func answer(jobs []*job, err error) {
	for _, j := range jobs {
		if err != nil {
			j.err = err
		}
		close(j.done)
	}
}

// commit reads, decides and writes jobs in one transaction, again after each conflict and each lost answer.
func (r *run) commit(ctx context.Context, jobs []*job) error {
	limit := conflictsBeforeBisect
	if len(jobs) == 1 {
		limit = conflictsAlone
	}
	r.spent = nil
	conflicts, failures := 0, 0
	unknown := false // a commit was sent and its answer was lost
	for {
		phase, err := r.attempt(ctx, jobs, conflicts > 0)
		switch {
		case err == nil:
			return nil
		case eventlog.IsConflict(err):
			r.config.Metrics.conflicts.Inc()
			r.permits.unspend(r.spent)
			if conflicts++; conflicts >= limit {
				r.spent = nil
				if len(jobs) == 1 {
					return fmt.Errorf("%w: gave up after %d conflicts: %w", ErrUnavailable, conflicts, err)
				}
				return fmt.Errorf("gave up after %d conflicts: %w", conflicts, err)
			}
		case eventlog.IsUnavailable(err):
			if unknown = unknown || phase == writing; !unknown {
				r.permits.unspend(r.spent)
			}
			if failures++; !unknown && failures >= connectionAttempts {
				return fmt.Errorf("%w: %w", ErrUnavailable, err)
			}
		default:
			r.permits.unspend(r.spent)
			return err
		}
		// Jitter, so that two replicas that collided do not collide again.
		pause := time.Duration(rand.Int64N(int64(2*time.Millisecond) << min(conflicts+failures, 5))) //nolint:gosec // not a secret
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			if unknown {
				return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
			}
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
}

// phase is how far an attempt got.
type phase int

const (
	reading phase = iota // nothing was sent that could have been committed
	writing              // the transaction was sent; without an answer its outcome is unknown
)

// attempt is one try at committing jobs in one transaction.
func (r *run) attempt(ctx context.Context, jobs []*job, lockTitles bool) (phase, error) {
	conn, err := r.config.Pool.Acquire(ctx)
	if err != nil {
		return reading, fmt.Errorf("acquire connection: %w", err)
	}
	defer conn.Release()
	if lockTitles {
		return r.attemptLocked(ctx, conn, jobs)
	}
	st, err := r.load(ctx, conn.Conn(), jobs)
	if err != nil {
		return reading, err
	}
	if err := r.decide(ctx, st, jobs); err != nil {
		return reading, err
	}
	return r.write(ctx, conn.Conn(), st)
}

// attemptLocked does the same inside an explicit transaction that first takes advisory locks on the titles. The
// locks take no transaction id, so the append is still the first write.
func (r *run) attemptLocked(ctx context.Context, conn *pgxpool.Conn, jobs []*job) (phase, error) {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return reading, fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // after a commit there is nothing to roll back
	if err := lockTitles(ctx, tx, jobs); err != nil {
		return reading, err
	}
	st, err := r.load(ctx, tx, jobs)
	if err != nil {
		return reading, err
	}
	if err := r.decide(ctx, st, jobs); err != nil {
		return reading, err
	}
	if phase, err := r.write(ctx, tx, st); err != nil {
		return phase, err
	}
	if err := tx.Commit(ctx); err != nil {
		return writing, fmt.Errorf("commit: %w", err)
	}
	if len(st.decided) > 0 {
		r.config.Committed()
	}
	return writing, nil
}
