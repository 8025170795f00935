package handover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/eventlog"
	"novelgate/internal/database"
)

// fence is the row of the table handover, in a database that refuses appends.
type fence struct {
	promotion uuid.UUID
	successor string        // public URL; "" if unknown
	log       uuid.NullUUID // id of the successor's log; NULL if unknown
	replaced  bool          // the successor was promoted without this database
	complete  bool          // the handover is complete
}

const (
	fenceSQL = `SELECT promotion_id, successor_url, successor_log, replaced, given_at IS NOT NULL FROM handover`
	// lockSQL waits for running writes; later ones wait until the end of the transaction. After deadlock_timeout, which
	// is one second by default, PostgreSQL cancels an autovacuum that holds the locks, unless it prevents wraparound. The
	// connection has the lock of lockKeySQL already, unless a pooler in transaction mode has taken it in another session.
	lockSQL = `SET LOCAL lock_timeout = '2s';
SELECT pg_advisory_xact_lock(` + lockKeySQL + `);
LOCK TABLE events, imports, import_chunks, webhooks IN SHARE ROW EXCLUSIVE MODE`
	// raiseSQL stores a fence, unless its promotion is ignored. $1: id of the promotion, $2: public URL of the successor,
	// $3: whether the database was replaced, $4: id of the successor's log.
	raiseSQL = `INSERT INTO handover (promotion_id, successor_url, replaced, successor_log, fenced_at)
SELECT $1, $2, $3, $4, statement_timestamp()
WHERE NOT EXISTS (SELECT FROM ignored_promotions WHERE promotion_id = $1) ON CONFLICT DO NOTHING`
	// liftSQL deletes a fence. $1: id of the promotion, $2: whether to lift the fence of a complete handover.
	liftSQL = `DELETE FROM handover WHERE promotion_id = $1 AND (given_at IS NULL OR $2)`
	// ignoreSQL remembers the promotion that replaced the database. $1: its id.
	ignoreSQL = `INSERT INTO ignored_promotions (promotion_id, successor_url, ignored_at)
SELECT promotion_id, successor_url, statement_timestamp() FROM handover WHERE promotion_id = $1 AND replaced
ON CONFLICT DO NOTHING`
	// completeSQL marks a handover as complete. $1: id of the promotion.
	completeSQL = `UPDATE handover SET given_at = coalesce(given_at, statement_timestamp()) WHERE promotion_id = $1`
)

// triggersSQL returns the statements that change the triggers of the fence. action is ENABLE ALWAYS or DISABLE.
func triggersSQL(action string) string {
	sql := ""
	for _, table := range []string{"events", "imports", "import_chunks", "webhooks"} {
		sql += "ALTER TABLE " + table + " " + action + " TRIGGER handed_over;"
	}
	return sql
}

// readFence reads the fence of a database; nil without one.
func readFence(ctx context.Context, db database.Querier) (*fence, error) {
	var f fence
	err := db.QueryRow(ctx, fenceSQL).Scan(&f.promotion, &f.successor, &f.log, &f.replaced, &f.complete)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // documented
	}
	if err != nil {
		return nil, fmt.Errorf("read whether the database has handed over: %w", err)
	}
	return &f, nil
}

// Fence makes a database refuse all appends because the service at a URL, which may be "", was promoted without it. It
// does nothing if the database has a fence or ignores the promotion. It fails while a handover or its undoing is under
// way.
func Fence(ctx context.Context, pool *pgxpool.Pool, promotion uuid.UUID, successor string) error {
	err := withLock(ctx, pool, func(conn *pgx.Conn) error {
		f := fence{promotion: promotion, successor: successor, replaced: true}
		return raiseFence(ctx, conn, f, func(database.Querier) error { return nil })
	})
	if errors.Is(err, errChanged) {
		return nil
	}
	return err
}

// lockKeySQL is the key of the advisory lock of a handover, its undoing, a promotion, or Fence: one of them acts at a
// time. An undo and a promotion each take the lock of their own database, and then ask the other service, which
// publishes whether its lock is held. So at least one of them sees the other.
const lockKeySQL = `hashtextextended('novelgate handover', 0)`

// errBusy means that another process holds the lock.
var errBusy = fmt.Errorf("%w: another `novelgate handover` or a `novelgate promote` is running, or has just ended",
	ErrRefused)

// lockTimeoutSQL limits the wait for the lock. There is a wait because the database may notice late that the process
// that held the lock was killed.
const lockTimeoutSQL = `SET lock_timeout = '3s'`

// withLock runs do with a connection that holds the lock of lockKeySQL. do must raise and lift the fence on this
// connection: then no fence is raised or lifted without the lock, and the lock is held until the end of the commit,
// also if this process is killed. withLock fails with errBusy if another process holds the lock for seconds.
func withLock(ctx context.Context, pool *pgxpool.Pool, do func(conn *pgx.Conn) error) error {
	pooled, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("lock the handover: %w", err)
	}
	conn := pooled.Hijack()
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // releases the lock
	if _, err = conn.Exec(ctx, lockTimeoutSQL); err == nil {
		_, err = conn.Exec(ctx, `SELECT pg_advisory_lock(`+lockKeySQL+`)`)
	}
	if eventlog.IsLocked(err) {
		return errBusy
	}
	if err != nil {
		return fmt.Errorf("lock the handover: %w", err)
	}
	return do(conn)
}

// raiseFence makes a database refuse all appends, if check succeeds while no append is under way. It fails with
// errChanged if the database has a fence already, or ignores the promotion.
func raiseFence(ctx context.Context, conn *pgx.Conn, f fence, check func(db database.Querier) error) error {
	return exclusively(ctx, conn, "fence the database", func(tx pgx.Tx) error {
		if err := check(tx); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, raiseSQL, f.promotion, f.successor, f.replaced, f.log)
		if err == nil && tag.RowsAffected() != 1 {
			err = errChanged
		}
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, triggersSQL("ENABLE ALWAYS"))
		return err
	})
}

// errChanged means that another command has changed the handover meanwhile.
var errChanged = fmt.Errorf("%w: another command has completed or undone the handover meanwhile; run this one again",
	ErrRefused)

// liftFence lets a database append again, if check succeeds before it while no append is under way. It calls last just
// before the commit. If a promotion has replaced the database, it is ignored from then on. liftFence fails with
// errChanged if the fence is not that of f, or if the handover has been completed since f was read.
func liftFence(ctx context.Context, conn *pgx.Conn, f *fence, check, last func() error) error {
	return exclusively(ctx, conn, "lift the fence", func(tx pgx.Tx) error {
		if err := check(); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, ignoreSQL, f.promotion); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, liftSQL, f.promotion, f.complete)
		if err == nil && tag.RowsAffected() != 1 {
			err = errChanged
		}
		if err != nil {
			return err
		}
		if _, err = tx.Exec(ctx, triggersSQL("DISABLE")); err != nil {
			return err
		}
		return last()
	})
}

// exclusively runs do in a transaction without concurrent writers. It gives up after five attempts, because waiting
// for a long transaction would stop all appends.
func exclusively(ctx context.Context, conn *pgx.Conn, what string, do func(tx pgx.Tx) error) (err error) {
	const attempts = 5
	for attempt := range attempts {
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, lockSQL, pgx.QueryExecModeSimpleProtocol); err != nil {
				return err
			}
			return do(tx)
		})
		if !eventlog.IsConflict(err) {
			break
		}
		eventlog.Sleep(ctx, time.Duration(attempt+1)*100*time.Millisecond)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
