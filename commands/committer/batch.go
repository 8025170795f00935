package committer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"novelgate/events/eventlog"
)

// batch is the commands that are executed together.
type batch struct {
	*Committer
	metLock bool // the batch has met a locked row: see shortTimeoutSQL
	// lost has the attempts whose answer was lost, by batch id, with the jobs that they have recorded. At most one of them
	// is committed.
	lost map[uuid.UUID]map[deliveryKey]*job
}

// plainBatches is the number of batches that do not try the fast path after a retried comment. Partners retry in bursts
// after an outage, and on the fast path each batch with a retry fails first.
const plainBatches = 64

// commitFast tries the fast path and reports whether it has answered the jobs.
func (b *batch) commitFast(ctx context.Context, jobs []*job) bool {
	if b.plainLeft > 0 {
		b.plainLeft--
		return false
	}
	st := newState(len(jobs))
	if !b.cache.lookUp(st, jobs) {
		return false
	}
	switch result, err := b.attempt(ctx, st, jobs, b.executeFast); {
	case result == committed:
		b.conclude(st)
		b.answer(jobs, nil)
		return true
	case result == lost:
		b.lost[st.id] = st.first
	case eventlog.IsDuplicate(err):
		b.plainLeft = plainBatches
	}
	return false
}

// conclude takes over what a committed attempt has done.
func (b *batch) conclude(st *state) {
	st.grants.Committed()
	b.cache.learn(st)
	if st.retried {
		b.plainLeft = plainBatches
	}
	if len(st.decided) > 0 {
		b.config.Committed()
		b.config.Metrics.countAppended(st)
	}
}

// commitOrSplit commits jobs together or, if that fails, one half after the other, down to the command at fault. It
// answers each job.
func (b *batch) commitOrSplit(ctx context.Context, jobs []*job) {
	err := b.commit(ctx, jobs)
	switch {
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrOutcomeUnknown):
		b.config.Logger.WarnContext(ctx, "batch not committed", slog.Int("commands", len(jobs)), slog.Any("error", err))
	case err != nil && len(jobs) > 1:
		b.config.Metrics.bisections.Inc()
		b.commitOrSplit(ctx, jobs[:len(jobs)/2])
		b.commitOrSplit(ctx, jobs[len(jobs)/2:])
		return
	case eventlog.IsLocked(err):
		b.config.Logger.WarnContext(ctx, "command not executed: another session locks what it needs",
			slog.String("title", jobs[0].FoldedTitle))
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	case eventlog.IsConflict(err):
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	b.answer(jobs, err)
}

// commit commits jobs in one transaction. It tries again after a lost answer, a failed connection, or when it did not
// get the lock of the log in time. Any other error may be that of one command.
func (b *batch) commit(ctx context.Context, jobs []*job) error {
	for failures := 0; ; {
		st := newState(len(jobs))
		result, err := b.attempt(ctx, st, jobs, b.execute)
		switch result {
		case committed:
			b.conclude(st)
			return nil
		case failed:
			b.metLock = b.metLock || eventlog.IsLocked(err)
			return err
		case busy: // until the time of the batch is up
		case lost:
			b.lost[st.id] = st.first
		case unreachable:
			if failures++; failures >= b.connectionAttempts && len(b.lost) == 0 {
				return b.giveUp(err)
			}
		}
		// Jitter, so that replicas do not try again at the same moment.
		pause := time.Duration(rand.Int64N(int64(2*time.Millisecond) << min(failures, 5))) //nolint:gosec // not a secret
		if !eventlog.Sleep(ctx, pause) {
			return b.giveUp(err)
		}
	}
}

// giveUp returns the error for commands that could not be committed: ErrOutcomeUnknown after a lost answer, otherwise
// ErrUnavailable.
func (b *batch) giveUp(err error) error {
	if len(b.lost) == 0 {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
}
