package committer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"
)

// conflictsBeforeBisect is how often a batch is decided again as a whole.
const conflictsBeforeBisect = 3

// conflictsAlone is how often a command that stands alone is decided again before it is given up.
const conflictsAlone = 12

// run is one batch on its way into the log.
type run struct {
	*Committer
	doubt   *doubt   // of the lane
	trust   trust    // of the next attempt
	permits *permits // creations and updates of novels that the batch may make
	// unsure are the attempts whose answer was lost, by the batch id of their events, and the permits that each
	// used. At most one attempt at a command is ever committed.
	unsure map[uuid.UUID]map[window]int
	// answered are keys of such attempts that have been answered as first delivery.
	answered map[ref]struct{}
}

// run carries out jobs and answers each of them.
func (c *Committer) run(jobs []*job, d *doubt, m *memory) {
	ctx, cancel := context.WithTimeout(context.Background(), c.config.Timeout)
	defer cancel()
	r := &run{
		Committer: c, doubt: d, trust: trust{presumed: d.presume(), memory: m, unread: true},
		permits: newPermits(c.config.Permits, c.config.Timeout/2),
		unsure:  map[uuid.UUID]map[window]int{}, answered: map[ref]struct{}{},
	}
	r.settle(ctx, jobs)
	if err := r.permits.trouble(); err != nil {
		c.config.Logger.WarnContext(ctx, "creations or updates of novels refused: the limiter is away",
			slog.Any("error", err))
	}
	if err := r.permits.returnUnused(); err != nil {
		c.config.Logger.WarnContext(ctx, "could not return permits", slog.Any("error", err))
	}
}

// settle commits jobs together if it can, in halves if it must, and answers them.
func (r *run) settle(ctx context.Context, jobs []*job) {
	err := r.commit(ctx, jobs)
	switch {
	case err == nil:
		r.answer(jobs, nil)
	case errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown):
		r.config.Logger.WarnContext(ctx, "batch not committed", slog.Int("commands", len(jobs)), slog.Any("error", err))
		r.answer(jobs, err)
	case len(jobs) == 1: // whoever submitted it reports it
		r.answer(jobs, err)
	default:
		r.config.Metrics.bisections.Inc()
		half := len(jobs) / 2
		r.settle(ctx, jobs[:half])
		r.settle(ctx, jobs[half:])
	}
}

// answer lets the submitters go on: with the result that was decided, or with err. Only now is the integration's turn
// over: a command stays in its lane when its submitter has gone away.
func (c *Committer) answer(jobs []*job, err error) {
	for _, j := range jobs {
		if err != nil {
			j.err = err
		}
		close(j.done)
		c.shares.Return(j.caller.IntegrationID)
	}
}

// commit reads, decides and writes jobs in one transaction, again after each conflict and each lost answer.
func (r *run) commit(ctx context.Context, jobs []*job) error {
	limit := conflictsBeforeBisect
	if len(jobs) == 1 {
		limit = conflictsAlone
	}
	conflicts, failures := 0, 0
	for {
		st := newState(len(jobs))
		if slices.ContainsFunc(jobs, (*job).isComment) {
			st.trust = r.trust
		}
		verdict, err := r.attempt(ctx, st, jobs, conflicts > 0)
		if !st.presumed && st.retried(jobs) {
			r.doubt.raise()
		}
		if verdict == committed {
			r.conclude(st)
			return nil
		}
		r.permits.unspend(st.spent)
		if verdict == failed && st.trust != (trust{}) {
			// a retry is neither decided nor stored again, and news may not be needed: neither may what failed
			verdict = misjudged
		}
		r.trust.unread = false
		if verdict != outdated {
			r.trust = trust{}
		}
		switch verdict {
		case outdated:
			r.config.Metrics.outdated.Inc()
			r.trust.memory.drop(st.recalled) // which of them it was is not always told
			continue
		case misjudged:
			r.config.Metrics.misjudged.Inc()
			continue
		case conflicted:
			r.config.Metrics.conflicts.Inc()
			if conflicts++; conflicts >= limit && len(jobs) == 1 {
				return r.giveUp(fmt.Errorf("gave up after %d conflicts: %w", conflicts, err))
			} else if conflicts >= limit {
				return fmt.Errorf("gave up after %d conflicts: %w", conflicts, err)
			}
		case lost:
			r.unsure[st.id] = st.spent
		case away:
			if failures++; failures >= r.connectionAttempts && len(r.unsure) == 0 {
				return r.giveUp(err)
			}
		default:
			return err
		}
		// Jitter, so that two replicas that collided do not collide again.
		pause := time.Duration(rand.Int64N(int64(2*time.Millisecond) << min(conflicts+failures, 5))) //nolint:gosec // not a secret
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return r.giveUp(err)
		}
	}
}

// conclude notes what an attempt that was committed has settled.
func (r *run) conclude(st *state) {
	maps.Copy(r.answered, st.claimed)
	st.rememberComments()
	for id := range st.found {
		r.unsure[id] = nil // what it used has been charged
	}
	if len(st.decided)+len(st.found) > 0 {
		r.config.Committed()
	}
	r.config.Metrics.grew(st)
}

// giveUp is the answer when the database stays away. Permits of a transaction that may have been committed stay
// charged: too few may be granted, never too many.
func (r *run) giveUp(err error) error {
	if len(r.unsure) == 0 {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	for id, spent := range r.unsure {
		r.permits.charge(spent)
		r.unsure[id] = nil
	}
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
}
