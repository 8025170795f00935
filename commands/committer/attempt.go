package committer

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/eventlog"
	"novelgate/projections"
)

// attemptResult is the result of an attempt. Only a committed or lost attempt may have written anything.
type attemptResult int

const (
	committed   attemptResult = iota
	busy                      // it did not get the lock of the log in time
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
	defer func() {
		// A panic on one command must not end the committer.
		if cause := recover(); cause != nil {
			r, err = failed, fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
			if st.sent {
				r = lost
			}
		}
		if r != committed && !rolledBack(ctx, conn) {
			// The server has closed the connection, shuts down, is full or has become a standby. The pool would wait 15 seconds
			// for a silent connection, so close it outside of the pool.
			_ = conn.Hijack().Close(ctx)
		}
	}()
	err = execute(ctx, conn, st, jobs)
	return classify(ctx, conn.Conn(), st, err), err
}

// rolledBack ends the transaction of a failed attempt, and reports whether the connection can be used again.
func rolledBack(ctx context.Context, conn *pgxpool.Conn) bool {
	session := conn.Conn().PgConn()
	if session.IsClosed() || ctx.Err() != nil {
		return false
	}
	if session.TxStatus() == 'I' {
		return true
	}
	_, err := conn.Exec(ctx, "rollback")
	return err == nil
}

// errNotCached means that the commands must be decided on what is stored.
var errNotCached = errors.New("not all that the batch needs is cached")

// executeFast is a transaction in one round trip, for comments that are decided on the cache. It assumes that all keys
// are new: the append fails if one is on record. It also fails if the cache does not hold, an author is blocked or a
// limit is reached: then nothing was written.
func (b *batch) executeFast(ctx context.Context, conn *pgxpool.Conn, st *state, jobs []*job) error {
	st.isFast = true
	b.wantPermits(st, jobs)
	if err := b.decide(st, jobs); err != nil {
		return err
	}
	for _, j := range jobs {
		if j.err != nil {
			return errNotCached
		}
	}
	statements := &pgx.Batch{}
	st.held = eventlog.Lock(statements)
	b.cache.check(statements, st, authorsOf(jobs))
	st.grants.QueueGrant(statements)
	if err := st.queueAppend(ctx, statements); err != nil {
		return err
	}
	defer b.config.Breaker.Watch(ctx)()
	return b.send(ctx, conn, st, statements)
}

// execute is a transaction in two round trips: the first one locks the log and reads, the second one appends and
// commits.
func (b *batch) execute(ctx context.Context, conn *pgxpool.Conn, st *state, jobs []*job) error {
	if err := b.read(ctx, conn, st, jobs); err != nil {
		return err
	}
	if err := b.decide(st, jobs); err != nil {
		return err
	}
	statements, err := st.writes(ctx)
	if err != nil {
		return err
	}
	return b.send(ctx, conn, st, statements)
}

// send sends the last statements of a transaction.
func (b *batch) send(ctx context.Context, conn *pgxpool.Conn, st *state, statements *pgx.Batch) error {
	st.sent = len(st.decided) > 0
	start := time.Now() //nolint:forbidigo // a duration for a metric
	if err := conn.SendBatch(ctx, statements).Close(); err != nil {
		return fmt.Errorf("append batch: %w", err)
	}
	b.config.Metrics.commitSeconds.Observe(time.Since(start).Seconds())
	return nil
}

// shortTimeoutSQL replaces the time-out for rows that other sessions lock once a batch has met one: all others wait for
// the lock of the log while the command at fault is found.
const shortTimeoutSQL = `SELECT set_config('lock_timeout', '1ms', true)`

// lazySQL makes a commit that only stores granted permits not wait for the disk, unless a synchronous standby must
// first have what was read: the transactions of the deliveries that are repeated.
const lazySQL = `SELECT set_config('synchronous_commit', 'off', true) WHERE current_setting('synchronous_standby_names') = ''`

// writes returns the statements that append the decided events, update the inline projections, store the granted
// permits, and commit.
func (st *state) writes(ctx context.Context) (*pgx.Batch, error) {
	statements := &pgx.Batch{}
	if len(st.decided) > 0 {
		if err := st.queueAppend(ctx, statements); err != nil {
			return nil, err
		}
	} else {
		statements.Queue(lazySQL)
		eventlog.QueueReplicated(statements)
	}
	st.grants.QueueGrant(statements)
	statements.Queue("commit")
	return statements, nil
}

// queueAppend queues the append of the decided events and the changes of the inline projections.
func (st *state) queueAppend(ctx context.Context, statements *pgx.Batch) (err error) {
	if st.bytes, err = eventlog.QueueMeasured(statements, st.decided); err != nil {
		return err
	}
	st.id = st.decided[0].Metadata.Batch
	st.queueErase(statements)
	return projections.QueueInline(ctx, statements, st.decided)
}

// classify returns the result of an attempt that ended with err; nil: committed.
func classify(ctx context.Context, conn *pgx.Conn, st *state, err error) attemptResult {
	var refused *pgconn.PgError
	switch {
	case err == nil:
		return committed
	case errors.As(err, &refused) && refused.SeverityUnlocalized == "ERROR":
		// The server answered and rolls back.
		switch {
		case !*st.held && eventlog.IsLocked(err):
			return busy
		case eventlog.IsUnavailable(err):
			return unreachable
		default:
			return failed
		}
	case st.sent && !pgconn.SafeToRetry(err):
		return lost
	case refused == nil && !conn.IsClosed() && ctx.Err() == nil:
		return failed // an error of this program, such as an event that cannot be decoded
	default:
		return unreachable
	}
}
