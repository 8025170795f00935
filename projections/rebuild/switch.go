package rebuild

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
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
	firstLockWait   = 50 * time.Millisecond // doubles every fourth attempt, up to maxLockWait
	maxLockWait     = 800 * time.Millisecond
	firstPause      = 20 * time.Millisecond // between attempts; doubles up to maxPause
	maxPause        = 2 * time.Second
	warnAfter       = 8 // attempts before a warning
	warnHiddenAfter = 3 // attempts with too many unapplied events before a warning
	vacuumWait      = 3 * time.Second
)

const (
	tailSize = 1000  // maximum number of events that the switch itself applies
	scanSize = 10000 // maximum number of events that it reads while it blocks appends; most may be of other stream types
)

var errTooFarBehind = errors.New("the log has grown too much for the switch")

const (
	lockLiveSQL = `SELECT transaction_id, position, state FROM projections WHERE name = $1 FOR NO KEY UPDATE`

	// behindSQL counts the visible events after ($1, $2), settled or not, but at most $4: first all of them, then those of
	// the stream types $3, where NULL means all types.
	behindSQL = `SELECT count(*), count(*) FILTER (WHERE $3::text[] IS NULL OR e.stream_type = ANY ($3)) FROM (
    SELECT stream_type FROM events WHERE (transaction_id, position) > ($1, $2) ORDER BY transaction_id,
        position LIMIT $4
) AS e`

	lockLogSQL = `LOCK TABLE events IN SHARE MODE`

	switchCheckpointSQL = `UPDATE projections
SET generation = $2, transaction_id = $3, position = $4, state = 'running', error = NULL, failed_transaction_id = NULL,
    failed_position = NULL, unknown_type = NULL, updated_at = statement_timestamp()
WHERE name = $1`

	finishSQL = `UPDATE projection_rebuilds
SET phase = 'finished', transaction_id = $3, position = $4, events_done = events_done + $5,
    finished_at = statement_timestamp(), error = NULL
WHERE name = $1 AND builder = $2`
)

// switchOver makes the new tables the live ones, once it gets all locks in one attempt.
func (r *rebuild) switchOver(ctx context.Context) error {
	if _, err := r.pool.Exec(ctx, `ANALYZE `+strings.Join(r.tablesIn(r.Schema()), ", ")); err != nil {
		return fmt.Errorf("analyze the new tables: %w", err)
	}
	behind := 0  // attempts that failed with errTooFarBehind
	attempt := 1 // grows when a lock was not free, and with it the next wait for locks
	for {
		err := r.checkLag(ctx)
		if err == nil {
			err = r.trySwitch(ctx, min(firstLockWait<<min(attempt/4, 10), maxLockWait))
		}
		_, poisoned := errors.AsType[*PoisonError](err)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errTooFarBehind):
			behind++
			if projections.IsInline(r.Projection) && !r.pauseForLog(ctx, behind) {
				return ctx.Err()
			}
		case eventlog.IsConflict(err) && !eventlog.BlamesData(err):
			if !r.pauseForLocks(ctx, attempt, err) {
				return ctx.Err()
			}
			attempt++
		case poisoned: // replayLog returns the same error, unless staff have skipped the event meanwhile
		default:
			// One of the last events may be the cause: replayLog finds it.
			if followErr := r.replayLog(ctx, endOfLog); followErr != nil {
				return followErr
			}
			return fmt.Errorf("switch: %w", err)
		}
		// The live tables have new events.
		if err := r.replayLog(ctx, endOfLog); err != nil {
			return err
		}
	}
}

// pauseForLog pauses until the log may have settled. It returns false when ctx has ended.
func (r *rebuild) pauseForLog(ctx context.Context, behind int) bool {
	if behind == warnHiddenAfter {
		r.Logger.WarnContext(ctx, "The switch to the new tables waits for the log to settle: a transaction that is open "+
			"elsewhere hides a part of it")
	}
	return eventlog.Sleep(ctx, watchInterval)
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

// checkLag fails with errTooFarBehind if so many events are left that an inline switch would block appends for long.
// replayLog does not reduce them while a transaction anywhere on the cluster keeps events from settling.
func (r *rebuild) checkLag(ctx context.Context) error {
	if !projections.IsInline(r.Projection) {
		return nil
	}
	var all, own int
	if err := r.pool.QueryRow(ctx, behindSQL, r.record.position.TransactionID, r.record.position.Ordinal,
		r.Projection.Streams(), scanSize).Scan(&all, &own); err != nil {
		return fmt.Errorf("count the events that are left: %w", err)
	}
	if all >= scanSize || own >= tailSize {
		return errTooFarBehind
	}
	return nil
}

func (r *rebuild) trySwitch(ctx context.Context, lockWait time.Duration) error {
	return pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		if err := r.lockOutVacuum(ctx, tx); err != nil {
			return err
		}
		settings := fmt.Sprintf(`SET LOCAL lock_timeout = %d; SET LOCAL synchronous_commit = on`, lockWait.Milliseconds())
		if _, err := tx.Exec(ctx, settings); err != nil {
			return fmt.Errorf("set up the switch: %w", err)
		}
		tail, err := r.readTail(ctx, tx)
		if err != nil {
			return err
		}
		if err := r.applyTail(ctx, tx, &tail); err != nil {
			return err
		}
		if err := r.exchange(ctx, tx); err != nil {
			return err
		}
		return r.finish(ctx, tx, &tail)
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

// readTail blocks the writers of the live tables and returns the events that the new tables lack. It fails with
// errTooFarBehind if these are too many, or end before the live checkpoint.
func (r *rebuild) readTail(ctx context.Context, tx pgx.Tx) (eventlog.Chunk, error) {
	if projections.IsInline(r.Projection) {
		return r.readTailOfLog(ctx, tx)
	}
	var live events.Position
	var state string
	if err := tx.QueryRow(ctx, lockLiveSQL, r.Projection.Name()).Scan(&live.TransactionID, &live.Ordinal,
		&state); err != nil {
		return eventlog.Chunk{}, fmt.Errorf("lock checkpoint: %w", err)
	}
	tail, err := eventlog.ReadChunk(ctx, tx, r.record.position, r.tailFetch, r.Projection.Streams())
	// The checkpoint of a diverged projection is not in the log, and may be after the end of the log.
	if err == nil && (tail.Full || state != projections.Diverged && tail.End.Compare(live) < 0) {
		err = errTooFarBehind
	}
	return tail, err
}

// readTailOfLog is readTail for inline projections: it blocks appends.
func (r *rebuild) readTailOfLog(ctx context.Context, tx pgx.Tx) (eventlog.Chunk, error) {
	if _, err := tx.Exec(ctx, lockLogSQL); err != nil {
		return eventlog.Chunk{}, fmt.Errorf("block appends: %w", err)
	}
	// Every append has committed or waits, so every visible event is settled.
	last, err := eventlog.Last(ctx, tx)
	if err != nil {
		return eventlog.Chunk{}, err
	}
	tail, err := eventlog.ReadRange(ctx, tx, eventlog.Range{After: r.record.position, UpTo: last}, r.tailFetch,
		r.Projection.Streams())
	if err == nil && tail.Full { // events were appended since checkLag
		err = errTooFarBehind
	}
	return tail, err
}

// applyTail applies the events that the new tables lack.
func (r *rebuild) applyTail(ctx context.Context, tx pgx.Tx, tail *eventlog.Chunk) error {
	r.removeSkipped(tail)
	if len(tail.Undecodable) > 0 {
		return poison(&tail.Undecodable[0].Recorded, tail.Undecodable[0])
	}
	if err := r.setSearchPath(ctx, tx); err != nil {
		return err
	}
	var writes pgx.Batch
	if err := projections.Apply(ctx, r.Projection, &writes, tail.Events); err != nil {
		return err
	}
	if err := tx.SendBatch(ctx, &writes).Close(); err != nil {
		return fmt.Errorf("apply the last %d events: %w", len(tail.Events), err)
	}
	return nil
}

// finish records the end of the rebuild.
func (r *rebuild) finish(ctx context.Context, tx pgx.Tx, tail *eventlog.Chunk) error {
	if _, err := tx.Exec(ctx, `SET LOCAL search_path = public`); err != nil {
		return fmt.Errorf("set search_path: %w", err)
	}
	name, end := r.Projection.Name(), tail.End
	if !projections.IsInline(r.Projection) {
		if _, err := tx.Exec(ctx, switchCheckpointSQL, name, r.Projection.Generation(), end.TransactionID,
			end.Ordinal); err != nil {
			return fmt.Errorf("switch checkpoint: %w", err)
		}
	}
	tag, err := tx.Exec(ctx, finishSQL, name, r.builder, end.TransactionID, end.Ordinal, tail.Read)
	if err != nil {
		return fmt.Errorf("record the switch: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return ErrTakenOver
	}
	return nil
}
