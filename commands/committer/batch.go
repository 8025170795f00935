package committer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/projections"
)

// How often commands are decided again after a conflict: as a batch, before it is cut, and one by itself, before it
// is given up.
const (
	conflictsBeforeBisect = 3
	conflictsAlone        = 12
)

var (
	// errNotCached sends a batch from the fast path to the plain one.
	errNotCached = errors.New("not all that the batch needs is cached")
	// errLocked ends the attempts at commands of which one met a lock that another session holds.
	errLocked = errors.New("another session holds a lock on the title")
)

// batch is commands that a lane has taken up together, on their way into the log.
type batch struct {
	*lane
	jobs    []*job
	permits *permits // creations and updates of novels that the batch may make
	hurried bool     // it has met a lock: see hurrySQL
	// lost are the attempts whose answer was lost, by the batch id of their events, and the permits that each used; nil
	// once these are charged. At most one attempt at a command is ever committed.
	lost map[uuid.UUID]map[window]int
}

// commitFast tries the fast path, and reports whether it has answered the jobs. When it has not, the plain path reads
// everything.
func (b *batch) commitFast(ctx context.Context, jobs []*job) bool {
	if b.plain > 0 {
		b.plain--
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

// settle commits jobs together if it can, in parts if it must, and answers them or sets them apart.
func (b *batch) settle(ctx context.Context, jobs []*job) {
	err := b.commit(ctx, jobs)
	half := len(jobs) / 2
	switch {
	case err == nil:
		b.answer(jobs, nil)
		return
	case errors.Is(err, errLocked):
		if !b.hurried {
			b.hurried = true
			if free := b.setApartLockedRows(ctx, jobs); len(free) < len(jobs) {
				if len(free) > 0 {
					b.settle(ctx, free)
				}
				return
			}
		}
		if half = cutBetweenLocks(jobs); half == 0 {
			b.leave(jobs)
			return
		}
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrOutcomeUnknown):
		b.config.Logger.WarnContext(ctx, "batch not committed", slog.Int("commands", len(jobs)), slog.Any("error", err))
		b.answer(jobs, err)
		return
	case half == 0: // the submitter reports it
		b.answer(jobs, err)
		return
	}
	b.config.Metrics.bisections.Inc()
	b.settle(ctx, jobs[:half])
	b.settle(ctx, jobs[half:])
}

// leave sets jobs apart from the batch.
func (b *batch) leave(jobs []*job) {
	// Another job of the batch with one of their keys may be committed before them; see own.
	b.jobs = slices.DeleteFunc(slices.Clone(b.jobs), func(j *job) bool { return slices.Contains(jobs, j) })
	b.setApart(jobs)
}

// lockedRowsSQL lists those of the titles $1 whose row another session locks. It waits for none of them.
const lockedRowsSQL = `SELECT folded_title FROM title_lookup WHERE folded_title = ANY($1) AND folded_title NOT IN (
	SELECT folded_title FROM title_lookup WHERE folded_title = ANY($1) FOR NO KEY UPDATE SKIP LOCKED)`

// setApartLockedRows sets apart the upserts of titles whose rows are locked, all in one round trip, and returns the
// other jobs. Without that, cutting a batch of which half the titles are locked takes longer than its commands have.
func (b *batch) setApartLockedRows(ctx context.Context, jobs []*job) []*job {
	upserts := map[string][]*job{}
	for _, j := range jobs {
		if !j.isComment() {
			upserts[j.folded] = append(upserts[j.folded], j)
		}
	}
	rows, _ := b.config.Pool.Query(ctx, lockedRowsSQL, slices.Collect(maps.Keys(upserts))) // CollectRows has the error
	locked, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return jobs // they are cut
	}
	for _, title := range locked {
		b.leave(upserts[title])
	}
	return slices.DeleteFunc(slices.Clone(jobs), func(j *job) bool {
		return !j.isComment() && slices.Contains(locked, j.folded)
	})
}

// cutBetweenLocks sorts jobs by title, upserts first, and returns where a cut between lock groups is nearest to the
// middle; 0 when there is only one group.
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

// answer lets the submitters go on: with the result that was decided, or with err. Only now does the integration get
// its share back: a command stays in its lane when its submitter has gone away.
func (c *Committer) answer(jobs []*job, err error) {
	for _, j := range jobs {
		if err != nil {
			j.err = err
		}
		close(j.done)
		c.shares.Return(j.caller.IntegrationID)
	}
}

// commit takes jobs along the plain path in one transaction, again after each conflict and each lost answer.
func (b *batch) commit(ctx context.Context, jobs []*job) error {
	limit := conflictsBeforeBisect
	if len(jobs) == 1 {
		limit = conflictsAlone
	}
	conflicts, failures := 0, 0
	for {
		path := b.plainPath
		if conflicts > 0 {
			path = b.lockedPath
		}
		st := newState(len(jobs))
		st.hurried = b.hurried
		result, err := b.attempt(ctx, st, jobs, path)
		if result == committed {
			b.conclude(st)
			return nil
		}
		b.permits.unspend(st.spent)
		switch result {
		case locked, conflicted:
			b.config.Metrics.conflicts.Inc()
			if result == locked && len(b.lost) == 0 { // else its jobs must stay together, and in their order
				return fmt.Errorf("%w: %w", errLocked, err)
			}
			if conflicts++; conflicts >= limit {
				if err = fmt.Errorf("gave up after %d conflicts: %w", conflicts, err); len(jobs) == 1 {
					return b.giveUp(err)
				}
				return err
			}
		case lost:
			b.lost[st.id] = st.spent
		case away:
			if failures++; failures >= b.connectionAttempts && len(b.lost) == 0 {
				return b.giveUp(err)
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
			return b.giveUp(err)
		}
	}
}

// conclude notes what a committed attempt means for the batch, the cache and the metrics.
func (b *batch) conclude(st *state) {
	b.cache.addComments(st)
	if st.retried {
		b.plain = plainBatches
	}
	if len(st.decided) > 0 {
		b.config.Committed()
	}
	b.config.Metrics.grew(st)
}

// recognise finds out which attempts whose answers were lost have been committed, and charges their permits before
// anything else is decided.
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

// giveUp returns the answer when the database stays away. Permits of a transaction that may have been committed stay
// charged: too few may be granted, never too many.
func (b *batch) giveUp(err error) error {
	if len(b.lost) == 0 {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	for id := range b.lost {
		b.charge(id)
	}
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
}

// result is what became of an attempt. Nothing was written unless it is committed or lost.
type result int

const (
	committed  result = iota
	conflicted        // another writer was faster
	locked            // another session held a lock for longer than lock_timeout
	away              // the database could not be asked
	lost              // the transaction was sent and its outcome is unknown
	failed            // it cannot be carried out as it is
)

// path carries out one attempt at committing jobs.
type path func(ctx context.Context, conn *pgxpool.Conn, st *state, jobs []*job) error

// attempt is one try at committing jobs in one transaction.
func (b *batch) attempt(ctx context.Context, st *state, jobs []*job, along path) (r result, err error) {
	conn, err := b.config.Pool.Acquire(ctx)
	if err != nil {
		return away, fmt.Errorf("acquire connection: %w", err)
	}
	defer conn.Release()
	session := conn.Conn().PgConn()
	b.cache.begin(b.connectionEpoch(session), database.ServerOf(session))
	defer func() {
		// One command that trips over a mistake in this program must not take all others down with it.
		if cause := recover(); cause != nil {
			r, err = failed, fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
			if st.sent {
				r = lost
			}
		}
	}()
	err = along(ctx, conn, st, jobs)
	if err == nil && !st.sent { // the deliveries that replays answer from may not have been acknowledged before
		err = eventlog.AwaitReplicated(ctx, conn)
	}
	if r = classify(ctx, conn.Conn(), st, err); r == away || r == lost {
		// The server behind the connection is gone, shuts down, is full or has become a standby. The pool would keep
		// the place of a silent connection taken for 15 seconds, so it is closed outside of the pool.
		_ = conn.Hijack().Close(ctx)
	}
	return r, err
}

// fastPath takes a batch of comments on cached titles in one round trip, an optimistic insert: keys are not looked
// up, since the append fails if one is on record, and the cache is checked inside of the transaction. The check is
// behind the append, because the switch of an inline rebuild locks the log before its tables.
func (b *batch) fastPath(ctx context.Context, conn *pgxpool.Conn, st *state, jobs []*job) error {
	if err := b.cache.lookUp(st, jobs); err != nil {
		return err
	}
	if err := b.decide(ctx, st, jobs); err != nil {
		return err
	}
	for _, j := range jobs {
		if j.err != nil { // its key may be on record, and then it is not refused
			return j.err
		}
	}
	statements, err := st.writes(ctx)
	if err != nil {
		return err
	}
	b.cache.check(statements, st, authorsOf(jobs))
	return b.send(ctx, conn, st, statements)
}

// plainPath reads everything, decides, and sends the append, the inline projections and the commit together.
func (b *batch) plainPath(ctx context.Context, conn *pgxpool.Conn, st *state, jobs []*job) error {
	statements, err := b.prepare(ctx, conn, st, jobs)
	if err != nil || statements == nil {
		return err
	}
	return b.send(ctx, conn, st, statements)
}

// lockedPath does the same inside of an explicit transaction that first takes advisory locks on the titles. These
// take no transaction id, so the append is still the first write.
func (b *batch) lockedPath(ctx context.Context, conn *pgxpool.Conn, st *state, jobs []*job) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	// Within ctx: a server that does not answer must not hold up the lane for longer.
	defer tx.Rollback(ctx) //nolint:errcheck // after a commit there is nothing to roll back
	if err := lockTitles(ctx, tx, jobs); err != nil {
		return err
	}
	statements, err := b.prepare(ctx, tx, st, jobs)
	if err != nil || statements == nil {
		return err
	}
	start := time.Now() //nolint:forbidigo // a duration for a metric
	if err := tx.SendBatch(ctx, statements).Close(); err != nil {
		return fmt.Errorf("append batch: %w", err)
	}
	st.sent = true
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	b.config.Metrics.commitSeconds.Observe(time.Since(start).Seconds())
	return nil
}

// Writers that retry on one contended title queue up for its advisory lock, and each holds it for less than the queue
// timeout. The statements behind it wait for row locks as long as those of the other paths. TO DEFAULT would wait
// without a bound: the default of the server counts in a transaction, not what the session has set.
const (
	queueTimeoutSQL = `SET LOCAL lock_timeout = '500ms'`
	rowTimeoutSQL   = `SET LOCAL lock_timeout = '` + database.AppendLockTimeout + `'`
	lockTitlesSQL   = `SELECT pg_advisory_xact_lock(n) FROM unnest($1::bigint[]) AS n`
)

// lockTitles makes the transaction wait for others that retry on the same titles. The locks are taken in one order,
// so that two batches do not deadlock.
func lockTitles(ctx context.Context, tx pgx.Tx, jobs []*job) error {
	numbers := make([]int64, 0, len(jobs))
	for _, j := range jobs {
		hash := fnv.New64a()
		hash.Write([]byte(j.folded))
		numbers = append(numbers, int64(hash.Sum64())) //nolint:gosec // any 64 bits will do
	}
	slices.Sort(numbers)
	statements := &pgx.Batch{}
	statements.Queue(queueTimeoutSQL)
	statements.Queue(lockTitlesSQL, slices.Compact(numbers))
	statements.Queue(rowTimeoutSQL)
	if err := tx.SendBatch(ctx, statements).Close(); err != nil {
		return fmt.Errorf("lock titles: %w", err)
	}
	return nil
}

// prepare reads, decides, and returns the statements to send; nil when there is nothing to write.
func (b *batch) prepare(ctx context.Context, db database.DB, st *state, jobs []*job) (*pgx.Batch, error) {
	if err := b.read(ctx, db, st, jobs); err != nil {
		return nil, err
	}
	for _, j := range jobs {
		j.open = st.titles[j.folded].threadID != uuid.Nil
	}
	if err := b.decide(ctx, st, jobs); err != nil {
		return nil, err
	}
	if len(st.decided) == 0 {
		return nil, nil //nolint:nilnil // said above
	}
	return st.writes(ctx)
}

// hurrySQL shortens database.AppendLockTimeout once a batch has met a lock, so that a batch with any number of locks is
// cut before the time of its other commands is up.
const hurrySQL = `SELECT set_config('lock_timeout', '1ms', true)`

// writes returns the statements that append what was decided and update the inline projections. The append is the
// first.
func (st *state) writes(ctx context.Context) (*pgx.Batch, error) {
	statements := &pgx.Batch{}
	if st.hurried {
		statements.Queue(hurrySQL)
	}
	var err error
	if st.bytes, err = eventlog.QueueMeasured(statements, st.decided); err != nil {
		return nil, err
	}
	if err := projections.QueueInline(ctx, statements, st.decided); err != nil {
		return nil, err
	}
	return statements, nil
}

// send carries out a transaction in one round trip.
func (b *batch) send(ctx context.Context, conn *pgxpool.Conn, st *state, statements *pgx.Batch) error {
	st.sent = true
	start := time.Now() //nolint:forbidigo // a duration for a metric
	if err := conn.SendBatch(ctx, statements).Close(); err != nil {
		return fmt.Errorf("append batch: %w", err)
	}
	b.config.Metrics.commitSeconds.Observe(time.Since(start).Seconds())
	return nil
}

// classify says what err means for an attempt.
func classify(ctx context.Context, conn *pgx.Conn, st *state, err error) result {
	var refused *pgconn.PgError
	switch {
	case err == nil:
		return committed
	case errors.As(err, &refused) && refused.SeverityUnlocalized == "ERROR":
		// The server lives and has rolled back.
		switch {
		case eventlog.IsLocked(err):
			return locked
		case eventlog.IsConflict(err):
			return conflicted
		case eventlog.IsUnavailable(err):
			return away
		default:
			return failed
		}
	case st.sent:
		return lost
	case refused == nil && !conn.IsClosed() && ctx.Err() == nil:
		return failed // nothing but this program is at fault, such as an event that cannot be decoded
	default:
		return away
	}
}

// isStaleCache reports whether the check of the cache has refused a transaction.
func isStaleCache(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == staleCache
}
