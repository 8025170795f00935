package projections

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
)

// States of a projection.
const (
	Running  = "running"
	Failed   = "failed"   // stopped before an event that it cannot apply, until Retry, Skip or a rebuild
	Diverged = "diverged" // its checkpoint is at an event that is not in the log, until a rebuild
)

// ErrUnknownProjection is returned for a name without a projection, or without a checkpoint.
var ErrUnknownProjection = errors.New("unknown projection")

// checkpoint is the row of a projection in the table projections.
type checkpoint struct {
	generation int
	position   events.Position
	state      string
	identity   eventlog.Identity // of the log, when the row was read
	inLog      bool              // the log has the event at the position
}

const createCheckpointSQL = `INSERT INTO projections (name, generation, transaction_id, position, state, updated_at)
VALUES ($1, $2, '0', 0, 'running', statement_timestamp()) ON CONFLICT (name) DO NOTHING`

const readCheckpointSQL = `SELECT generation, transaction_id, position, state, ` + eventlog.IdentitySQL + `, ` + inLogSQL + `
FROM projections AS p WHERE name = $1`

// inLogSQL reports whether the log has the event of a checkpoint, and not another one at its position.
const inLogSQL = `(p.transaction_id = '0' OR EXISTS (SELECT FROM events AS e
    WHERE e.transaction_id = p.transaction_id AND e.position = p.position AND e.recorded_at = p.event_recorded_at))`

// loadCheckpoint returns the checkpoint of a projection. It creates a missing one.
func loadCheckpoint(ctx context.Context, db database.DB, projection Projection) (checkpoint, error) {
	if err := CreateCheckpoint(ctx, db, projection); err != nil {
		return checkpoint{}, err
	}
	var inLog bool
	c, err := scanCheckpoint(db.QueryRow(ctx, readCheckpointSQL, projection.Name()), &inLog)
	c.inLog = inLog
	return c, err
}

// CreateCheckpoint creates the checkpoint of a projection that has never run, at the beginning of the log.
func CreateCheckpoint(ctx context.Context, db database.DB, projection Projection) error {
	var exists bool
	if err := db.QueryRow(ctx, existsSQL, projection.Name()).Scan(&exists); err != nil || exists {
		return wrap(err, "look for checkpoint")
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

// scanCheckpoint scans a row that starts with the first five columns of readCheckpointSQL.
func scanCheckpoint(row pgx.Row, more ...any) (checkpoint, error) {
	var c checkpoint
	dest := append([]any{&c.generation, &c.position.TransactionID, &c.position.Ordinal, &c.state, &c.identity}, more...)
	if err := row.Scan(dest...); err != nil {
		return checkpoint{}, fmt.Errorf("read checkpoint: %w", err)
	}
	return c, nil
}

const (
	// checkpointSQL also makes the commit not wait for the disk: the events of a lost transaction are applied again.
	checkpointSQL = `SELECT generation, transaction_id, position, state, ` + eventlog.IdentitySQL + `, set_config('synchronous_commit', 'off', true)
FROM projections WHERE name = $1`
	skipLocked = ` FOR NO KEY UPDATE SKIP LOCKED`

	// lockCheckpointSQL returns nothing when another session has the lock.
	lockCheckpointSQL = checkpointSQL + skipLocked

	// Each transaction of a catch-up begins with a shared advisory lock, long before it locks the checkpoint. Otherwise
	// another replica would find the checkpoint unlocked and write the same rows.
	lockCatchUpSQL = `SELECT pg_advisory_xact_lock_shared(hashtextextended('novelgate catch up ' || $1, 0))`

	// lockIdleCheckpointSQL also returns nothing while a catch-up writes chunks.
	lockIdleCheckpointSQL = checkpointSQL +
		` AND pg_try_advisory_xact_lock(hashtextextended('novelgate catch up ' || $1, 0))` + skipLocked
)

const saveCheckpointSQL = `UPDATE projections
SET transaction_id = $2, position = $3, error = NULL, unknown_type = NULL, updated_at = statement_timestamp() WHERE name = $1`

// failSQL stops a projection. $2, $3: its checkpoint, $4, $5: the event that it cannot apply, $6: error, $7:
// generation, $8: identity of the log.
const failSQL = `UPDATE projections
SET state = 'failed', failed_transaction_id = $4, failed_position = $5, error = $6, unknown_type = NULL,
    updated_at = statement_timestamp()
WHERE name = $1 AND transaction_id = $2 AND position = $3 AND state = 'running' AND generation = $7 AND ` + eventlog.IdentitySQL + ` = $8`

// recordUnknownSQL records the unknown event type at which a running projection waits. $2, $3: its checkpoint, $4:
// event type, $5: generation.
const recordUnknownSQL = `UPDATE projections
SET unknown_type = $4, updated_at = statement_timestamp()
WHERE name = $1 AND transaction_id = $2 AND position = $3 AND state = 'running' AND unknown_type IS DISTINCT FROM $4 AND generation = $5`

// recordRetrySQL records the error that a running projection retries. $2, $3: its checkpoint, $4: error.
const recordRetrySQL = `UPDATE projections
SET error = $4, updated_at = statement_timestamp()
WHERE name = $1 AND transaction_id = $2 AND position = $3 AND state = 'running' AND error IS DISTINCT FROM $4`

// divergeSQL stops a projection whose checkpoint is not in the log. $2, $3: the checkpoint, $4: error.
const divergeSQL = `UPDATE projections AS p
SET state = 'diverged', error = $4, failed_transaction_id = NULL, failed_position = NULL, unknown_type = NULL,
    updated_at = statement_timestamp()
WHERE name = $1 AND transaction_id = $2 AND position = $3 AND state <> 'diverged' AND NOT ` + inLogSQL

const retrySQL = `UPDATE projections
SET state = 'running', error = NULL, failed_transaction_id = NULL, failed_position = NULL,
    updated_at = statement_timestamp()
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
		return fmt.Errorf("retry projection %s: %w", name, ErrUnknownProjection)
	}
	return fmt.Errorf("retry projection %s: %w", name, ErrNotFailed)
}

// transactionTimeout limits one transaction, in case the database does not answer.
const transactionTimeout = 2 * time.Minute

// rollbackTimeout limits the rollback of a failed transaction.
const rollbackTimeout = 5 * time.Second

var (
	// errOtherReplica means that another replica holds the checkpoint.
	errOtherReplica = fmt.Errorf("%w: it applies this projection", eventlog.ErrStandby)
	// errMoved means that another replica, or an earlier delivery to this one, has moved the checkpoint since the events
	// were read.
	errMoved = fmt.Errorf("%w: it has moved the checkpoint", errOtherReplica)
	// errGeneration means that code of another generation wrote the live tables.
	errGeneration = fmt.Errorf("%w: the live tables are of another generation", eventlog.ErrBlocked)
	// errStopped means that the projection has failed, or diverged from the log.
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

// part is a part of the log to apply: the events after start, up to end.
type part struct {
	identity   eventlog.Identity // of the log it was read from
	start, end events.Position
	rows       []Rows // of events that a loader has turned into rows
	events     []events.Recorded
}

// commitPart applies a part and moves the checkpoint to its end, in one transaction. It does so only if the log is the
// one that the part was read from, and the checkpoint is at the start of the part and of this code's generation.
// Without rows to copy it takes two round trips.
//
// After a poisonError the events are to blame; after an ambiguousError, only if retries do not help. After any other
// error nothing was applied, or the outcome of the commit is unknown: the caller must read the checkpoint.
func commitPart(ctx context.Context, pool *pgxpool.Pool, projection Projection, p part) error {
	ctx, cancel := context.WithTimeout(ctx, transactionTimeout)
	defer cancel()
	// Before the transaction, to keep it short.
	writes, err := queueWrites(ctx, projection, p.events, p.end)
	if err != nil {
		return poisonError{err}
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("acquire connection: %w", err)
	}
	defer release(ctx, conn)
	if err := lockAt(ctx, conn, lockIdleCheckpointSQL, projection, p.identity, p.start, "begin"); err != nil {
		return err
	}
	for _, rows := range p.rows {
		if _, err = conn.CopyFrom(ctx, pgx.Identifier{"public", rows.Table}, rows.Columns, rows.Values); err != nil {
			break
		}
	}
	if err == nil {
		err = conn.SendBatch(ctx, writes).Close()
	}
	if err != nil {
		err = fmt.Errorf("apply events after %s: %w", p.start, err)
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

// queueWrites queues the statements that apply events and move the checkpoint to end, and the commit.
func queueWrites(
	ctx context.Context, projection Projection, batch []events.Recorded, end events.Position,
) (*pgx.Batch, error) {
	var writes pgx.Batch
	if err := Apply(ctx, projection, &writes, batch); err != nil {
		return nil, err
	}
	writes.Queue(saveCheckpointSQL, projection.Name(), end.TransactionID, end.Ordinal)
	writes.Queue("commit")
	return &writes, nil
}

// release returns a connection to the pool. It rolls back an open transaction; if this fails, Release closes the
// connection.
func release(ctx context.Context, conn *pgxpool.Conn) {
	if conn.Conn().PgConn().TxStatus() != 'I' && !conn.Conn().IsClosed() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_, _ = conn.Exec(ctx, "rollback")
	}
	conn.Release()
}

// lockAt locks the checkpoint, which must be at start in this log, until the end of the transaction. It first executes
// the earlier statements, in the same round trip.
func lockAt(
	ctx context.Context, conn *pgxpool.Conn, lockSQL string, projection Projection, identity eventlog.Identity,
	start events.Position, earlier ...string,
) error {
	var batch pgx.Batch
	for _, statement := range earlier {
		batch.Queue(statement)
	}
	found := checkpoint{}
	batch.Queue(lockSQL, projection.Name()).QueryRow(func(row pgx.Row) (err error) {
		var setting string
		found, err = scanCheckpoint(row, &setting)
		return err
	})
	err := conn.SendBatch(ctx, &batch).Close()
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return errOtherReplica
	case err != nil:
		return fmt.Errorf("lock checkpoint: %w", err)
	case found.identity != identity:
		return eventlog.ErrOtherLog
	case found.generation != projection.Generation():
		return errGeneration
	case found.state != Running:
		return errStopped
	case found.position != start:
		return errMoved
	}
	return nil
}
