package eventlog

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/database"
)

// Appends take turns: a transaction that appends takes the lock of the log before any other lock, and holds it to its
// end.
//
// The lock is an advisory lock and not a row: the versions of a row that every append updates would pile up under an
// old snapshot, for instance of a dump, and slow every append.

// setLimitsSQL sets the limits of a transaction under the lock, except that of the wait for it. $1, $2: names and
// values. Servers that do not know a setting ignore it.
const setLimitsSQL = `SELECT set_config(name, value, true) FROM unnest($1::text[], $2::text[]) AS s (name, value)
WHERE current_setting(name, true) IS NOT NULL`

// staffWait is how long rare appends, such as those of staff, wait for the lock. It is less than the limit of a
// statement.
const staffWait = "4s"

// rowLockLimit limits waits for other locks than that of the log. All others wait meanwhile.
const rowLockLimit = "100ms"

// takeLockSQL takes the lock, and then limits the waits for other locks. $1: number of the lock, $2: limit.
const takeLockSQL = `SELECT pg_advisory_xact_lock($1), set_config('lock_timeout', $2, true)`

// Lock adds the statement that takes the lock of the log to a batch. It must be the first one of a transaction whose
// isolation is READ COMMITTED, in a session with database.LockLimits. When the lock is not free within the session's
// lock_timeout, the batch fails with an error that IsLocked recognises. When the batch has ended, *held tells whether
// the transaction got the lock.
//
// Whatever a decision depends on must be read by later statements: a statement that waits for the lock sees the data
// from before its wait.
func Lock(batch *pgx.Batch) (held *bool) {
	held = new(bool)
	batch.Queue(takeLockSQL, int64(database.LogLock), rowLockLimit).Exec(func(pgconn.CommandTag) error {
		*held = true
		return nil
	})
	return held
}

// Under runs do in a transaction that has the lock of the log, and commits it unless do fails. It tries again when this
// or another lock is not free in time, or when the session ends before the commit, for instance because the client was
// too slow for database.LockLimits: nothing is appended then. It ends a stopped holder, for which it needs another
// connection of the pool. Under the lock, do uses only the transaction, without savepoints: a rollback to a savepoint
// may release the lock.
func Under(ctx context.Context, pool *pgxpool.Pool, do func(tx pgx.Tx) error) error {
	for attempt := 1; ; attempt++ {
		isSure := false // nothing is appended
		err := pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) (err error) {
			if err = takeLock(ctx, pool, tx); err != nil {
				err = fmt.Errorf("lock the log: %w", err)
			} else {
				err = do(tx)
			}
			isSure = err != nil
			return err
		})
		// A commit that notifies waits for a lock, too.
		again := IsLocked(err) || isSure && IsAway(err)
		if !again || attempt == underAttempts || !Sleep(ctx, retryPause) {
			return err
		}
	}
}

// Attempts of Under.
const (
	underAttempts = 5
	retryPause    = 50 * time.Millisecond
)

// idleInTransaction is the SQLSTATE with which the server ends a session whose client pauses for too long.
const idleInTransaction = "25P03"

func takeLock(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx) error {
	defer (&Breaker{Pool: pool, Logger: slog.Default()}).Watch(ctx)()
	names, values := []string{"lock_timeout"}, []string{staffWait}
	for name, value := range database.LockLimits {
		names, values = append(names, name), append(values, value)
	}
	var batch pgx.Batch
	batch.Queue(setLimitsSQL, names, values)
	Lock(&batch)
	return tx.SendBatch(ctx, &batch).Close()
}

// patience is how long a client waits for the lock of the log before it looks for a stopped holder.
const patience = time.Second

//go:embed break_lock.sql
var breakLockSQL string

// Breaker ends a session that holds the lock of the log while its client is stopped or cut off. PostgreSQL has no
// time-out for a client that stops in the middle of a pipeline; before version 17 also none for a whole transaction.
type Breaker struct {
	Pool   *pgxpool.Pool // a connection of it is free while others wait for the lock
	Logger *slog.Logger
}

// Watch looks for a stopped holder once a second, until stop is called. Call it before a wait for the lock.
func (b *Breaker) Watch(ctx context.Context) (stop func()) {
	waiting, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(patience, func() {
		for more := true; more; more = Sleep(waiting, patience) {
			// Not with waiting: a wait may have the same limit. It ends first then, and the next one succeeds.
			switch ended, err := b.Break(ctx); {
			case ctx.Err() != nil:
			case err != nil:
				b.Logger.WarnContext(ctx, "The holder of the lock of the log could not be checked", slog.Any("error", err))
			case ended > 0:
				b.Logger.WarnContext(ctx, "A session was ended that held the lock of the log while its client was stopped")
			}
		}
	})
	return func() { timer.Stop(); cancel() }
}

// Break ends the holder of the lock if it has waited for its client for a second. It never ends a session that
// executes, or that waits for a synchronous standby: ending that would publish its commit. It returns the number of
// ended sessions, 0 or 1.
func (b *Breaker) Break(ctx context.Context) (ended int, err error) {
	if err := b.Pool.QueryRow(ctx, breakLockSQL, int64(database.LogLock), patience.Seconds()).Scan(&ended); err != nil {
		return 0, fmt.Errorf("end a stopped holder of the lock: %w", err)
	}
	return ended, nil
}
