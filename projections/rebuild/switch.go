package rebuild

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/projections"
)

// Waits of the switch for locks. Later readers and writers queue behind it, so each wait is brief. Under a constant
// load of longer queries that is not enough, so the wait grows from attempt to attempt, but stays below PostgreSQL's
// deadlock_timeout of a second: in a deadlock the switch fails first.
const (
	firstLockWait = 50 * time.Millisecond // doubles every fourth attempt, up to maxLockWait
	maxLockWait   = 800 * time.Millisecond
	firstPause    = 20 * time.Millisecond // between attempts; doubles up to maxPause
	maxPause      = 2 * time.Second
	warnAfter     = 8 // attempts before a warning
	vacuumWait    = 3 * time.Second
)

// tailSize is the maximum number of events that the switch itself applies.
const tailSize = 2000

var errTooFarBehind = errors.New("the log has grown too much for the switch")

const (
	lockLiveSQL = `SELECT position FROM projections WHERE name = $1 FOR NO KEY UPDATE`

	switchCheckpointSQL = `UPDATE projections
SET generation = $2, position = $3, state = 'running', error = NULL, failed_log_index = NULL, unknown_type = NULL,
    updated_at = statement_timestamp()
WHERE name = $1`

	finishSQL = `UPDATE projection_rebuilds SET finished_at = statement_timestamp(), error = NULL WHERE name = $1`
)

// switchOver makes the new tables the live ones, once it gets all locks in one attempt.
func (r *rebuild) switchOver(ctx context.Context) error {
	if _, err := r.pool.Exec(ctx, `ANALYZE `+strings.Join(r.tablesIn(r.Schema()), ", ")); err != nil {
		return fmt.Errorf("analyze the new tables: %w", err)
	}
	for attempt := 1; ; { // grows when a lock was not free, and with it the next wait for locks
		err := r.trySwitch(ctx, min(firstLockWait<<min(attempt/4, 10), maxLockWait))
		_, poisoned := errors.AsType[*PoisonError](err)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errTooFarBehind), poisoned:
			// replay returns the error of a poisoned event, unless staff have skipped it meanwhile.
		case eventlog.IsConflict(err) && !eventlog.BlamesData(err):
			if !r.pauseForLocks(ctx, attempt, err) {
				return ctx.Err()
			}
			attempt++
		default:
			// One of the last events may be the cause: replay finds it.
			if replayErr := r.replay(ctx, endOfLog); replayErr != nil {
				return replayErr
			}
			return fmt.Errorf("switch: %w", err)
		}
		// The log has new events.
		if err := r.replay(ctx, endOfLog); err != nil {
			return err
		}
	}
}

// pauseForLocks lets the sessions pass that wait behind the attempt. It returns false when ctx has ended.
func (r *rebuild) pauseForLocks(ctx context.Context, attempt int, cause error) bool {
	if attempt%warnAfter == 0 {
		r.Logger.WarnContext(ctx, "The switch to the new tables waits for a lock that another session holds",
			slog.Any("error", cause))
	}
	pause := min(firstPause<<min(attempt-1, 10), maxPause)
	return eventlog.Sleep(ctx, pause/2+rand.N(pause)) //nolint:gosec // not a secret
}

func (r *rebuild) trySwitch(ctx context.Context, lockWait time.Duration) error {
	return pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		if err := r.lockOutVacuum(ctx, tx); err != nil {
			return err
		}
		if projections.IsInline(r.Projection) {
			var lock pgx.Batch
			lock.Queue(`SET LOCAL lock_timeout = ` + strconv.Itoa(int(maxLockWait.Milliseconds())))
			eventlog.Lock(&lock)
			if err := tx.SendBatch(ctx, &lock).Close(); err != nil {
				return fmt.Errorf("lock the log: %w", err)
			}
		}
		settings := fmt.Sprintf(`SET LOCAL lock_timeout = %d; SET LOCAL synchronous_commit = on`, lockWait.Milliseconds())
		if _, err := tx.Exec(ctx, settings); err != nil {
			return fmt.Errorf("set up the switch: %w", err)
		}
		end, err := r.applyTail(ctx, tx)
		if err != nil {
			return err
		}
		if err := r.exchange(ctx, tx); err != nil {
			return err
		}
		return r.finish(ctx, tx, end)
	})
}

// lockOutVacuum takes a lock that conflicts only with maintenance of the tables, not with readers and writers. An
// autovacuum gives way after deadlock_timeout, which is longer than the wait for the next lock.
func (r *rebuild) lockOutVacuum(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, fmt.Sprintf(`SET LOCAL lock_timeout = %d`, vacuumWait.Milliseconds())); err != nil {
		return fmt.Errorf("set lock_timeout: %w", err)
	}
	tables := append(r.tablesIn("public"), r.tablesIn(r.Schema())...)
	if _, err := tx.Exec(ctx, `LOCK TABLE `+strings.Join(tables, ", ")+` IN SHARE UPDATE EXCLUSIVE MODE`); err != nil {
		return fmt.Errorf("lock out maintenance: %w", err)
	}
	return nil
}

// applyTail applies the events that the new tables lack, and returns their end. The writers of the live tables wait:
// for the log, or for the checkpoint. It fails with errTooFarBehind if the events are too many.
func (r *rebuild) applyTail(ctx context.Context, tx pgx.Tx) (end events.Position, err error) {
	if !projections.IsInline(r.Projection) {
		if err := tx.QueryRow(ctx, lockLiveSQL, r.Projection.Name()).Scan(nil); err != nil {
			return 0, fmt.Errorf("lock checkpoint: %w", err)
		}
	}
	if err := r.setSearchPath(ctx, tx); err != nil {
		return 0, err
	}
	position, err := r.lockRecord(ctx, tx)
	if err != nil {
		return 0, err
	}
	r.fetch.SetMax(tailSize)
	tail, err := eventlog.ReadChunk(ctx, tx, eventlog.Mark{Position: position}, r.fetch, r.Projection.Streams())
	if err != nil {
		return 0, err
	}
	if tail.Full {
		return 0, errTooFarBehind
	}
	r.removeSkipped(&tail)
	if len(tail.Undecodable) > 0 {
		return 0, poison(&tail.Undecodable[0].Recorded, tail.Undecodable[0])
	}
	return tail.End.Position, r.write(ctx, tx, &tail)
}

// finish records the end of the rebuild.
func (r *rebuild) finish(ctx context.Context, tx pgx.Tx, end events.Position) error {
	if _, err := tx.Exec(ctx, `SET LOCAL search_path = public`); err != nil {
		return fmt.Errorf("set search_path: %w", err)
	}
	if !projections.IsInline(r.Projection) {
		if _, err := tx.Exec(ctx, switchCheckpointSQL, r.Projection.Name(), r.Projection.Generation(), end); err != nil {
			return fmt.Errorf("switch checkpoint: %w", err)
		}
	} else if err := projections.ChangeInline(ctx, tx); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, finishSQL, r.Projection.Name()); err != nil {
		return fmt.Errorf("record the switch: %w", err)
	}
	return nil
}
