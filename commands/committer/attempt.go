package committer

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/projections"
)

// attemptResult is the result of an attempt. Only a committed or lost attempt may have written anything.
type attemptResult int

const (
	committed   attemptResult = iota
	conflicted                // another writer was faster
	busy                      // a lock time-out before it got the lock of the log
	locked                    // another session held another lock longer than lock_timeout
	unreachable               // the connection to the database failed
	lost                      // the transaction was sent and its outcome is unknown
	failed                    // the database or this program refused it; a repetition fails too
)

// path executes one attempt to commit jobs.
type path func(ctx context.Context, conn *pgxpool.Conn, st *state, jobs []*job) error

// attempt tries once to commit jobs in one transaction.
func (b *batch) attempt(
	ctx context.Context, st *state, jobs []*job, execute path,
) (r attemptResult, err error) {
	conn, err := b.config.Pool.Acquire(ctx)
	if err != nil {
		return unreachable, fmt.Errorf("acquire connection: %w", err)
	}
	defer conn.Release()
	session := conn.Conn().PgConn()
	st.server = database.ServerOf(session)
	b.cache.begin(b.connectionEpoch(session), st.server)
	defer func() {
		// A panic on one command must not end the lane.
		if cause := recover(); cause != nil {
			r, err = failed, fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
			if st.sent {
				r = lost
			}
		}
	}()
	defer b.config.Breaker.Watch(ctx)()
	err = execute(ctx, conn, st, jobs)
	if err == nil && !st.sent { // the standby may not have acknowledged the transaction of an earlier delivery yet
		err = eventlog.AwaitReplicated(ctx, conn)
	}
	if r = classify(ctx, conn.Conn(), st, err); r == unreachable || r == lost {
		// The server has closed the connection, shuts down, is full or has become a standby. The pool would wait 15 seconds
		// for a silent connection, so close it outside of the pool.
		_ = conn.Hijack().Close(ctx)
	}
	return r, err
}

// fastPath commits a batch of comments on cached titles in one round trip, as an optimistic insert: it looks up no
// keys, because the append fails if one is on record. The transaction checks the cache. The check comes after the
// append, because the switch of an inline rebuild locks the log before its tables.
func (b *batch) fastPath(ctx context.Context, conn *pgxpool.Conn, st *state, jobs []*job) error {
	if err := b.cache.lookUp(st, jobs); err != nil {
		return err
	}
	if err := b.decide(ctx, st, jobs); err != nil {
		return err
	}
	for _, j := range jobs {
		if j.err != nil { // its key may be on record: the plain path then answers with a replay instead
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

// plainPath reads everything, decides, and sends the append, the inline projections and the commit in one round trip.
func (b *batch) plainPath(ctx context.Context, conn *pgxpool.Conn, st *state, jobs []*job) error {
	statements, err := b.prepare(ctx, conn, st, jobs)
	if err != nil || statements == nil {
		return err
	}
	return b.send(ctx, conn, st, statements)
}

// lockedPath is plainPath in an explicit transaction that takes the lock of the log before it reads. So its decisions
// are exact.
func (b *batch) lockedPath(ctx context.Context, conn *pgxpool.Conn, st *state, jobs []*job) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	// Within ctx, because a server that does not answer must not block the lane for longer.
	defer tx.Rollback(ctx) //nolint:errcheck // after a commit there is nothing to roll back
	lock := &pgx.Batch{}
	st.held = eventlog.Lock(lock)
	if err := tx.SendBatch(ctx, lock).Close(); err != nil {
		return fmt.Errorf("lock the log: %w", err)
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

// prepare reads, decides, and returns the statements to send; nil when there is nothing to write.
func (b *batch) prepare(ctx context.Context, db database.DB, st *state, jobs []*job) (*pgx.Batch, error) {
	if err := b.read(ctx, db, st, jobs); err != nil {
		return nil, err
	}
	for _, j := range jobs {
		j.hasThread = st.titles[j.FoldedTitle].threadID != uuid.Nil
	}
	if err := b.decide(ctx, st, jobs); err != nil {
		return nil, err
	}
	if len(st.decided) == 0 {
		return nil, nil
	}
	return st.writes(ctx)
}

// shortTimeoutSQL replaces the time-out for other locks than that of the log once a batch has met one, so that a batch
// with many locks is split before the time of its other commands is up.
const shortTimeoutSQL = `SELECT set_config('lock_timeout', '1ms', true)`

// writes returns the statements that append the decided events and update the inline projections, under the lock of the
// log.
func (st *state) writes(ctx context.Context) (*pgx.Batch, error) {
	statements := &pgx.Batch{}
	if st.held == nil {
		st.held = eventlog.Lock(statements)
	}
	if st.metLock {
		statements.Queue(shortTimeoutSQL)
	}
	var err error
	if st.bytes, err = eventlog.QueueMeasured(statements, st.decided); err != nil {
		return nil, err
	}
	st.id = st.decided[0].Metadata.Batch
	if err := projections.QueueInline(ctx, statements, st.decided); err != nil {
		return nil, err
	}
	return statements, nil
}

// send executes a transaction in one round trip.
func (b *batch) send(ctx context.Context, conn *pgxpool.Conn, st *state, statements *pgx.Batch) error {
	st.sent = true
	start := time.Now() //nolint:forbidigo // a duration for a metric
	if err := conn.SendBatch(ctx, statements).Close(); err != nil {
		return fmt.Errorf("append batch: %w", err)
	}
	b.config.Metrics.commitSeconds.Observe(time.Since(start).Seconds())
	return nil
}

// classify returns the result of an attempt that ended with err; nil: committed.
func classify(ctx context.Context, conn *pgx.Conn, st *state, err error) attemptResult {
	var refused *pgconn.PgError
	switch {
	case err == nil:
		return committed
	case errors.As(err, &refused) && refused.SeverityUnlocalized == "ERROR":
		// The server answered and has rolled back.
		switch {
		case st.held != nil && !*st.held && eventlog.IsLocked(err):
			return busy
		case eventlog.IsLocked(err):
			return locked
		case eventlog.IsConflict(err):
			return conflicted
		case eventlog.IsUnavailable(err):
			return unreachable
		default:
			return failed
		}
	case st.sent:
		return lost
	case refused == nil && !conn.IsClosed() && ctx.Err() == nil:
		return failed // an error of this program, such as an event that cannot be decoded
	default:
		return unreachable
	}
}

// isStaleCache reports whether the check of the cache refused a transaction.
func isStaleCache(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == staleCache
}
