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
)

// verdict is what became of an attempt.
type verdict int

const (
	committed  verdict = iota
	misjudged          // a comment that was presumed new is none, or may be none; nothing was written
	outdated           // what the lane remembered has changed; nothing was written
	conflicted         // another writer was faster; nothing was written
	away               // the database could not be asked; nothing was written
	lost               // the transaction was sent and its outcome is unknown
	failed             // it cannot be carried out as it is; nothing was written
)

// attempt is one try at committing jobs in one transaction.
func (r *run) attempt(ctx context.Context, st *state, jobs []*job, lockTitles bool) (v verdict, err error) {
	conn, err := r.config.Pool.Acquire(ctx)
	if err != nil {
		return away, fmt.Errorf("acquire connection: %w", err)
	}
	defer conn.Release()
	if connections := r.meet(conn.Conn().PgConn()); st.memory != nil {
		st.memory.begin(connections)
	}
	defer func() {
		// One command that trips over a mistake in this program must not take all others down with it.
		if cause := recover(); cause != nil {
			v, err = failed, fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
			if st.sent {
				v = lost
			}
		}
	}()
	if lockTitles {
		err = r.attemptLocked(ctx, conn, st, jobs)
	} else {
		err = r.attemptPipelined(ctx, conn.Conn(), st, jobs)
	}
	v = judge(ctx, conn.Conn(), st, err)
	if v == away || v == lost {
		// Not to be met again: the server behind it is gone, shuts down, is full or has become a standby. The pool
		// would keep the place of a silent connection taken for 15 seconds, so it is closed outside of it.
		_ = conn.Hijack().Close(ctx)
	}
	return v, err
}

// attemptPipelined sends the append, the inline projections and the commit together.
func (r *run) attemptPipelined(ctx context.Context, conn *pgx.Conn, st *state, jobs []*job) error {
	if err := r.prepare(ctx, conn, st, jobs); err != nil {
		return err
	}
	batch, err := st.writes(ctx, jobs)
	if err != nil {
		return err
	}
	if batch == nil { // replays: what they answer from may not have been acknowledged before
		return eventlog.AwaitReplicated(ctx, conn) //nolint:wrapcheck // it says what it waited for
	}
	st.sent = true
	start := time.Now() //nolint:forbidigo // a duration for a metric
	if err := send(ctx, conn, batch); err != nil {
		return err
	}
	r.config.Metrics.commitSeconds.Observe(time.Since(start).Seconds())
	return nil
}

// attemptLocked does the same inside an explicit transaction that first takes advisory locks on the titles. The
// locks take no transaction id, so the append is still the first write.
func (r *run) attemptLocked(ctx context.Context, conn *pgxpool.Conn, st *state, jobs []*job) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	// Within ctx: a server that does not answer must not hold up the lane for longer.
	defer tx.Rollback(ctx) //nolint:errcheck // after a commit there is nothing to roll back
	if err := lockTitles(ctx, tx, jobs); err != nil {
		return err
	}
	if err := r.prepare(ctx, tx, st, jobs); err != nil {
		return err
	}
	batch, err := st.writes(ctx, jobs)
	if err != nil {
		return err
	}
	if batch == nil {
		if err := tx.Rollback(ctx); err != nil {
			return fmt.Errorf("end a transaction without writes: %w", err)
		}
		return eventlog.AwaitReplicated(ctx, conn) //nolint:wrapcheck // it says what it waited for
	}
	start := time.Now() //nolint:forbidigo // a duration for a metric
	if err := send(ctx, tx, batch); err != nil {
		return err
	}
	st.sent = true
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	r.config.Metrics.commitSeconds.Observe(time.Since(start).Seconds())
	return nil
}

// prepare loads the working state and decides on it.
func (r *run) prepare(ctx context.Context, q database.DB, st *state, jobs []*job) error {
	if err := r.load(ctx, q, st, jobs); err != nil {
		return err
	}
	if err := r.decide(ctx, st, jobs); err != nil {
		return err
	}
	return st.checkPresumption(jobs)
}

// judge says what err means for an attempt.
func judge(ctx context.Context, conn *pgx.Conn, st *state, err error) verdict {
	var refused *pgconn.PgError
	switch {
	case err == nil:
		return committed
	case errors.Is(err, errPresumption):
		return misjudged
	case errors.Is(err, errOutdated):
		return outdated
	case errors.As(err, &refused) && refused.SeverityUnlocalized == "ERROR":
		// The server lives and has rolled back.
		switch {
		case refused.Code == memoryRefused:
			return outdated
		case st.presumed && eventlog.IsDuplicate(err):
			return misjudged
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
		return failed // nobody's fault but ours, such as an event that cannot be decoded
	default:
		return away
	}
}
