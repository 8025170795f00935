package committer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/events/eventlog"
	"novelgate/internal/database"
)

// Maximum numbers of attempts with conflicts: of a batch before it is split, and of a single command before it fails.
const (
	conflictsBeforeBisect = 3
	conflictsBeforeGiveUp = 12
)

var (
	// errNotCached sends a batch from the fast path to the plain path.
	errNotCached = errors.New("not all that the batch needs is cached")
	// errLocked means that another session holds a lock that one of the commands needs.
	errLocked = errors.New("another session holds a lock on the title or the key")
)

// batch is the commands that a lane executes together.
type batch struct {
	*lane
	jobs    []*job
	permits *permits // for the novels that the batch creates or updates
	metLock bool     // the batch has met a lock: see shortTimeoutSQL
	// lost maps the batch id of each attempt whose answer was lost to the permits that the attempt used; nil once these
	// are charged. At most one attempt at a command is ever committed.
	lost map[uuid.UUID]map[window]int
}

// commitFast tries the fast path and reports whether it has answered the jobs. Otherwise they take the plain path.
func (b *batch) commitFast(ctx context.Context, jobs []*job) bool {
	if b.plainLeft > 0 {
		b.plainLeft--
		return false
	}
	st := newState(len(jobs))
	result, err := b.attempt(ctx, st, jobs, b.fastPath)
	switch {
	case result == committed:
		b.conclude(st)
		b.answer(jobs, nil)
		return true
	case result == lost:
		b.lost[st.id] = st.spent
	case eventlog.IsDuplicate(err):
		b.config.Metrics.duplicateKeys.Inc()
	case isStaleCache(err):
		b.config.Metrics.staleCaches.Inc()
	}
	return false
}

// commitOrSplit commits jobs together or, after failures, in smaller parts. It answers each job or sets it apart.
func (b *batch) commitOrSplit(ctx context.Context, jobs []*job) {
	err := b.commit(ctx, jobs)
	switch {
	case errors.Is(err, errLocked):
		b.splitLocked(ctx, jobs)
		return
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrOutcomeUnknown):
		b.config.Logger.WarnContext(ctx, "batch not committed", slog.Int("commands", len(jobs)), slog.Any("error", err))
	case err != nil && len(jobs) > 1:
		b.split(ctx, jobs, len(jobs)/2)
		return
	}
	b.answer(jobs, err)
}

// split commits jobs in two parts.
func (b *batch) split(ctx context.Context, jobs []*job, at int) {
	b.config.Metrics.bisections.Inc()
	b.commitOrSplit(ctx, jobs[:at])
	b.commitOrSplit(ctx, jobs[at:])
}

// splitLocked separates the jobs that need a lock of another session. It sets apart the upserts of titles with locked
// rows. If there are none, it splits the jobs until only those of one lock group are left, and sets them apart.
func (b *batch) splitLocked(ctx context.Context, jobs []*job) {
	if !b.metLock {
		b.metLock = true
		if free := b.setApartLockedRows(ctx, jobs); len(free) < len(jobs) {
			if len(free) > 0 {
				b.commitOrSplit(ctx, free)
			}
			return
		}
	}
	if at := cutBetweenLocks(jobs); at > 0 {
		b.split(ctx, jobs, at)
	} else {
		b.removeLocked(jobs)
	}
}

// removeLocked removes jobs of one lock group from the batch and sets them apart.
func (b *batch) removeLocked(jobs []*job) {
	// Another job of the batch with the same key may now be committed first; see isOwn.
	b.jobs = slices.DeleteFunc(slices.Clone(b.jobs), func(j *job) bool { return slices.Contains(jobs, j) })
	b.setApart(jobs)
}

// lockedRowsSQL lists those titles of $1 whose rows other sessions lock. It does not wait for these locks.
const lockedRowsSQL = `SELECT folded_title FROM title_lookup WHERE folded_title = ANY($1) AND folded_title NOT IN (
	SELECT folded_title FROM title_lookup WHERE folded_title = ANY($1) FOR NO KEY UPDATE SKIP LOCKED)`

// setApartLockedRows sets apart the upserts of titles whose rows are locked, all in one round trip, and returns the
// other jobs. Without it, splitting a batch with many locked titles takes longer than its commands may wait.
func (b *batch) setApartLockedRows(ctx context.Context, jobs []*job) []*job {
	upserts := map[string][]*job{}
	for _, j := range jobs {
		if !j.isComment() {
			upserts[j.FoldedTitle] = append(upserts[j.FoldedTitle], j)
		}
	}
	locked, err := database.Collect(ctx, b.config.Pool, "locked titles", pgx.RowTo[string], lockedRowsSQL,
		slices.Collect(maps.Keys(upserts)))
	if err != nil {
		return jobs // they will be split
	}
	for _, title := range locked {
		b.removeLocked(upserts[title])
	}
	return slices.DeleteFunc(slices.Clone(jobs), func(j *job) bool {
		return !j.isComment() && slices.Contains(locked, j.FoldedTitle)
	})
}

// cutBetweenLocks sorts jobs by title, upserts first, and returns the boundary between two lock groups that is nearest
// to the middle; 0 when there is only one group.
func cutBetweenLocks(jobs []*job) (at int) {
	slices.SortStableFunc(jobs, func(a, b *job) int { return cmp.Compare(a.titleGroup(), b.titleGroup()) })
	for i := 1; i < len(jobs); i++ {
		if jobs[i].lockGroup() != jobs[i-1].lockGroup() && (at == 0 || abs(2*i-len(jobs)) < abs(2*at-len(jobs))) {
			at = i
		}
	}
	return at
}

func abs(n int) int { return max(n, -n) }

// answer completes jobs with the decided result, or with err. Only then does it return the share of the integration: a
// command uses its share even if its submitter no longer waits.
func (c *Committer) answer(jobs []*job, err error) {
	for _, j := range jobs {
		if err != nil {
			j.err = err
		}
		close(j.done)
		c.shares.Return(j.Caller.IntegrationID)
	}
}

// commit commits jobs on the plain path in one transaction. It tries again after a conflict, a lost answer or a failed
// connection.
func (b *batch) commit(ctx context.Context, jobs []*job) error {
	limit := conflictsBeforeBisect
	if len(jobs) == 1 {
		limit = conflictsBeforeGiveUp
	}
	conflicts, failures := 0, 0
	for {
		path := b.plainPath
		if conflicts > 0 {
			path = b.lockedPath
		}
		st := newState(len(jobs))
		st.metLock = b.metLock
		result, err := b.attempt(ctx, st, jobs, path)
		if result == committed {
			b.conclude(st)
			return nil
		}
		b.permits.release(st.spent)
		switch result {
		case locked, conflicted:
			b.config.Metrics.conflicts.Inc()
			if result == locked && len(b.lost) == 0 { // after a lost answer, the jobs stay together, in their order
				return fmt.Errorf("%w: %w", errLocked, err)
			}
			if conflicts++; conflicts >= limit {
				if err = fmt.Errorf("gave up after %d conflicts: %w", conflicts, err); len(jobs) == 1 {
					return b.giveUp(err)
				}
				return err
			}
		case busy: // until the time of the batch is up
		case lost:
			b.lost[st.id] = st.spent
		case unreachable:
			if failures++; failures >= b.connectionAttempts && len(b.lost) == 0 {
				return b.giveUp(err)
			}
		default:
			return err
		}
		// Jitter, so that two replicas that collided do not collide again.
		pause := time.Duration(rand.Int64N(int64(2*time.Millisecond) << min(conflicts+failures, 5))) //nolint:gosec // not a secret
		if !eventlog.Sleep(ctx, pause) {
			return b.giveUp(err)
		}
	}
}

// conclude updates the batch, the cache and the metrics after a committed attempt.
func (b *batch) conclude(st *state) {
	b.cache.addComments(st)
	if st.retried {
		b.plainLeft = plainBatches
	}
	if len(st.decided) > 0 {
		b.config.Committed()
	}
	b.config.Metrics.countAppended(st)
}

// recognise finds the committed attempts among those whose answer was lost, and charges their permits before the next
// decision.
func (b *batch) recognise(st *state, jobs []*job) {
	if len(b.lost) == 0 {
		return
	}
	for _, j := range jobs {
		if d, ok := st.deliveries[j.key]; ok && b.lost[d.batch] != nil {
			b.charge(d.batch)
			b.config.Committed()
		}
	}
}

// charge charges the permits of an attempt whose answer was lost.
func (b *batch) charge(id uuid.UUID) {
	b.permits.charge(b.lost[id])
	b.lost[id] = nil
}

// giveUp returns the error for commands that could not be committed: ErrOutcomeUnknown after a lost answer, otherwise
// ErrUnavailable. Permits of a transaction that may have been committed stay charged: the limit may grant too few,
// never too many.
func (b *batch) giveUp(err error) error {
	if len(b.lost) == 0 {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	for id := range b.lost {
		b.charge(id)
	}
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
}
