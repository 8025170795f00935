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
	"novelgate/internal/database"
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

// attempt tries once to commit jobs in one transaction.
func (b *batch) attempt(ctx context.Context, st *state, jobs []*job) (r attemptResult, err error) {
	conn, err := b.config.Pool.Acquire(ctx)
	if err != nil {
		return unreachable, fmt.Errorf("acquire connection: %w", err)
	}
	defer conn.Release()
	st.server = database.ServerOf(conn.Conn().PgConn())
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
	err = b.execute(ctx, conn, st, jobs)
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
		var err error
		if st.bytes, err = eventlog.QueueMeasured(statements, st.decided); err != nil {
			return nil, err
		}
		st.id = st.decided[0].Metadata.Batch
		if err := projections.QueueInline(ctx, statements, st.decided); err != nil {
			return nil, err
		}
	} else {
		statements.Queue(lazySQL)
		eventlog.QueueReplicated(statements)
	}
	st.grants.QueueStore(statements)
	statements.Queue("commit")
	return statements, nil
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
	case st.sent:
		return lost
	case refused == nil && !conn.IsClosed() && ctx.Err() == nil:
		return failed // an error of this program, such as an event that cannot be decoded
	default:
		return unreachable
	}
}
