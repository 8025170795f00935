package projections

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
)

// States of a projection.
const (
	Running = "running"
	Failed  = "failed" // stopped before an event that it cannot apply, until Retry, Skip or a rebuild
)

// ErrUnknownProjection is returned for a name without a projection, or without a checkpoint.
var ErrUnknownProjection = errors.New("unknown projection")

// ErrOff means that an optional projection is not kept.
var ErrOff = fmt.Errorf("%w: the projection is switched off, see novelgate serve --help", eventlog.ErrBlocked)

// checkpoint is the row of a projection in the table projections.
type checkpoint struct {
	generation int
	position   events.Position
	state      string
}

const createCheckpointSQL = `INSERT INTO projections (name, generation, position, state, updated_at)
VALUES ($1, $2, 0, 'running', statement_timestamp()) ON CONFLICT (name) DO NOTHING`

const readCheckpointSQL = `SELECT generation, position, state FROM projections WHERE name = $1`

// loadCheckpoint returns the checkpoint of a projection. It creates a missing one, unless the projection is optional:
// then it fails with ErrOff.
func loadCheckpoint(ctx context.Context, db database.DB, projection Projection) (c checkpoint, err error) {
	if err := CreateCheckpoint(ctx, db, projection); err != nil {
		return checkpoint{}, err
	}
	err = db.QueryRow(ctx, readCheckpointSQL, projection.Name()).Scan(&c.generation, &c.position, &c.state)
	return c, wrap(err, "read checkpoint")
}

// CreateCheckpoint creates the checkpoint of a projection that has never run, at the beginning of the log. For an
// optional one it fails with ErrOff.
func CreateCheckpoint(ctx context.Context, db database.DB, projection Projection) error {
	var exists bool
	if err := db.QueryRow(ctx, existsSQL, projection.Name()).Scan(&exists); err != nil || exists {
		return wrap(err, "look for checkpoint")
	}
	if slices.ContainsFunc(Optional(), func(p Projection) bool { return p.Name() == projection.Name() }) {
		return ErrOff
	}
	_, err := db.Exec(ctx, createCheckpointSQL, projection.Name(), projection.Generation())
	return wrap(err, "create checkpoint")
}

const existsSQL = `SELECT EXISTS (SELECT FROM projections WHERE name = $1)`

func wrap(err error, doing string) error {
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// lockCheckpointSQL returns nothing when another session has the lock. Its commit does not wait for the disk: the
// events of a lost transaction are applied again. $2, $3: mark of the end of the events that are to be applied.
var lockCheckpointSQL = `SELECT generation, position, state, ` + eventlog.HasMarkSQL("$2::bigint", "$3::uuid") + `,
    set_config('synchronous_commit', 'off', true)
FROM projections WHERE name = $1 FOR NO KEY UPDATE SKIP LOCKED`

const saveCheckpointSQL = `UPDATE projections
SET position = $2, error = NULL, unknown_type = NULL, updated_at = statement_timestamp() WHERE name = $1`

// failSQL stops a projection. $2: its checkpoint, $3: log index of the event that it cannot apply, $4: error, $5:
// generation, $6: batch of this event.
var failSQL = `UPDATE projections
SET state = 'failed', failed_log_index = $3, error = $4, unknown_type = NULL, updated_at = statement_timestamp()
WHERE name = $1 AND position = $2 AND state = 'running' AND generation = $5 AND ` +
	eventlog.HasMarkSQL("($3::bigint + 1)", "$6::uuid")

// recordUnknownSQL records the unknown event type at which a running projection waits. $2: its checkpoint, $3: event
// type, $4: generation.
const recordUnknownSQL = `UPDATE projections
SET unknown_type = $3, updated_at = statement_timestamp()
WHERE name = $1 AND position = $2 AND state = 'running' AND unknown_type IS DISTINCT FROM $3 AND generation = $4`

// recordRetrySQL records the error that a running projection retries. $2: its checkpoint, $3: error.
const recordRetrySQL = `UPDATE projections
SET error = $3, updated_at = statement_timestamp()
WHERE name = $1 AND position = $2 AND state = 'running' AND error IS DISTINCT FROM $3`

const retrySQL = `UPDATE projections
SET state = 'running', error = NULL, failed_log_index = NULL, updated_at = statement_timestamp()
WHERE name = $1 AND state = 'failed'`

// Retry makes a failed projection apply its failed event again, within a second. It fails with ErrUnknownProjection or
// ErrNotFailed.
func Retry(ctx context.Context, db database.DB, name string) error {
	tag, err := db.Exec(ctx, retrySQL, name)
	if err != nil {
		return fmt.Errorf("retry projection %s: %w", name, err)
	}
	if tag.RowsAffected() > 0 {
		return nil
	}
	var exists bool
	if err := db.QueryRow(ctx, existsSQL, name).Scan(&exists); err != nil {
		return fmt.Errorf("look for projection %s: %w", name, err)
	}
	if !exists {
		return fmt.Errorf("retry: %w %q among the asynchronous ones", ErrUnknownProjection, name)
	}
	return fmt.Errorf("retry projection %s: %w", name, ErrNotFailed)
}

// transactionTimeout limits one transaction, in case the database does not answer.
const transactionTimeout = 2 * time.Minute

var (
	// errOtherReplica means that another replica holds the checkpoint.
	errOtherReplica = fmt.Errorf("%w: it applies this projection", eventlog.ErrStandby)
	// errMoved means that another replica, or an earlier delivery to this one, has moved the checkpoint since the events
	// were read.
	errMoved = fmt.Errorf("%w: it has moved the checkpoint", errOtherReplica)
	// errGeneration means that code of another generation wrote the live tables.
	errGeneration = fmt.Errorf("%w: the live tables are of another generation", eventlog.ErrBlocked)
	// errStopped means that the projection has failed.
	errStopped = fmt.Errorf("%w: the projection has stopped", eventlog.ErrBlocked)
)

// poisonError is an error of applying events that a retry would not fix: one of the events is to blame.
type poisonError struct{ error }

func (e poisonError) Unwrap() error { return e.error }

func isPoison(err error) bool {
	_, ok := errors.AsType[poisonError](err)
	return ok
}

// ambiguousError is an error of applying events whose cause is unknown: the database or the schema, so that a retry may
// succeed, or an event, for instance one that needs a missing object.
type ambiguousError struct{ error }

func (e ambiguousError) Unwrap() error { return e.error }

func isAmbiguous(err error) bool {
	_, ok := errors.AsType[ambiguousError](err)
	return ok
}

// part is a part of the log to apply: the events from start to end.
type part struct {
	start  events.Position
	end    eventlog.Mark
	events []events.Recorded
}

// commitPart applies a part and moves the checkpoint to its end, in one transaction, in two round trips. It does so
// only if the checkpoint is at the start of the part and of this code's generation, and if the log there has the end of
// the part: otherwise the part was read from a log that was lost meanwhile.
//
// After a poisonError the events are to blame; after an ambiguousError, only if retries do not help. After any other
// error nothing was applied, or the outcome of the commit is unknown: the caller must read the checkpoint.
func commitPart(ctx context.Context, pool *pgxpool.Pool, projection Projection, p part) error {
	ctx, cancel := context.WithTimeout(ctx, transactionTimeout)
	defer cancel()
	// Before the transaction, to keep it short.
	var writes pgx.Batch
	if err := Apply(ctx, projection, &writes, p.events); err != nil {
		return poisonError{err}
	}
	writes.Queue(saveCheckpointSQL, projection.Name(), p.end.Position)
	writes.Queue("commit")
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("acquire connection: %w", err)
	}
	defer database.Release(ctx, conn)
	if err := beginAt(ctx, conn, projection, p); err != nil {
		return err
	}
	if err := conn.SendBatch(ctx, &writes).Close(); err != nil {
		err = fmt.Errorf("apply events from %d on: %w", p.start, err)
		switch {
		case ctx.Err() != nil || conn.Conn().IsClosed():
			return err
		case eventlog.BlamesData(err):
			return poisonError{err}
		case eventlog.IsUnavailable(err) || eventlog.IsConflict(err):
			return err
		}
		return ambiguousError{err}
	}
	return nil
}

// beginAt begins a transaction and locks the checkpoint, which must be at the start of a part, until its end.
func beginAt(ctx context.Context, conn *pgxpool.Conn, projection Projection, p part) error {
	var batch pgx.Batch
	batch.Queue("begin")
	found, inLog := checkpoint{}, false
	batch.Queue(lockCheckpointSQL, projection.Name(), p.end.Position, p.end.Batch).QueryRow(func(row pgx.Row) error {
		return row.Scan(&found.generation, &found.position, &found.state, &inLog, nil)
	})
	err := conn.SendBatch(ctx, &batch).Close()
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return errOtherReplica
	case err != nil:
		return fmt.Errorf("lock checkpoint: %w", err)
	case found.generation != projection.Generation():
		return errGeneration
	case found.state != Running:
		return errStopped
	case found.position != p.start:
		return errMoved
	case !inLog:
		return eventlog.ErrOtherLog
	}
	return nil
}
