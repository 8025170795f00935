package projections

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
)

// States of a projection.
const (
	Running  = "running"
	Failed   = "failed"   // stopped before an event that it cannot apply, until Retry
	Diverged = "diverged" // its checkpoint is at an event that the log does not have, until it is rebuilt
)

// ErrUnknownProjection is returned for a name that has no checkpoint.
var ErrUnknownProjection = errors.New("unknown projection")

// checkpoint is the row of a projection: what it has applied, by which code, and whether it may go on.
type checkpoint struct {
	generation int
	position   events.Position
	state      string
	identity   eventlog.Identity // of the log that is stored beside it
	inLog      bool              // the log has the event at the position
}

const createCheckpointSQL = `INSERT INTO projections (name, generation, transaction_id, position, state, updated_at)
VALUES ($1, $2, '0', 0, 'running', statement_timestamp()) ON CONFLICT (name) DO NOTHING`

const readCheckpointSQL = `SELECT generation, transaction_id, position, state, ` + eventlog.IdentitySQL + `, ` + inLogSQL + `
FROM projections AS p WHERE name = $1`

// inLogSQL says whether the log has the event at a checkpoint: this event, not only one that has its position.
const inLogSQL = `(p.transaction_id = '0' OR EXISTS (SELECT FROM events AS e
    WHERE e.transaction_id = p.transaction_id AND e.position = p.position AND e.recorded_at = p.event_recorded_at))`

// loadCheckpoint returns the checkpoint of a projection, which is at the beginning of the log if there was none.
func loadCheckpoint(ctx context.Context, db database.DB, projection Projection) (checkpoint, error) {
	if err := CreateCheckpoint(ctx, db, projection); err != nil {
		return checkpoint{}, err
	}
	var inLog bool
	c, err := scanCheckpoint(db.QueryRow(ctx, readCheckpointSQL, projection.Name()), &inLog)
	c.inLog = inLog
	return c, err
}

// CreateCheckpoint sets a projection that has never run to the beginning of the log.
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

// scanCheckpoint reads a row that begins with the first five columns of readCheckpointSQL.
func scanCheckpoint(row pgx.Row, more ...any) (checkpoint, error) {
	var c checkpoint
	dest := append([]any{&c.generation, &c.position.TransactionID, &c.position.Ordinal, &c.state, &c.identity}, more...)
	if err := row.Scan(dest...); err != nil {
		return checkpoint{}, fmt.Errorf("read checkpoint: %w", err)
	}
	return c, nil
}

// What the transaction does can be done again from the log, so its commit need not wait for the disk.
const (
	checkpointSQL = `SELECT generation, transaction_id, position, state, ` + eventlog.IdentitySQL + `, set_config('synchronous_commit', 'off', true)
FROM projections WHERE name = $1`
	unlessLocked = ` FOR NO KEY UPDATE SKIP LOCKED`

	// lockCheckpointSQL returns nothing when somebody else has the lock.
	lockCheckpointSQL = checkpointSQL + unlessLocked

	// Whoever writes chunks holds an advisory lock from their beginning on, long before the checkpoint: else others would
	// take it for abandoned, and write the same rows. Several of its transactions hold that side by side.
	announceChunkSQL = `SELECT pg_advisory_xact_lock_shared(hashtextextended('novelgate catch up ' || $1, 0))`

	// lockIdleCheckpointSQL returns nothing while somebody writes chunks, too.
	lockIdleCheckpointSQL = checkpointSQL +
		` AND pg_try_advisory_xact_lock(hashtextextended('novelgate catch up ' || $1, 0))` + unlessLocked
)

const saveCheckpointSQL = `UPDATE projections
SET transaction_id = $2, position = $3, error = NULL, unknown_type = NULL, updated_at = statement_timestamp() WHERE name = $1`

// failSQL stops a projection. $2, $3: its checkpoint, $4, $5: the event that it cannot apply, $6: why, $7: generation,
// $8: the log.
const failSQL = `UPDATE projections
SET state = 'failed', failed_transaction_id = $4, failed_position = $5, error = $6, unknown_type = NULL,
    updated_at = statement_timestamp()
WHERE name = $1 AND transaction_id = $2 AND position = $3 AND state = 'running' AND generation = $7 AND ` + eventlog.IdentitySQL + ` = $8`

// noteUnknownSQL says what a running projection waits for. $2, $3: its checkpoint, $4: event type, $5: generation.
const noteUnknownSQL = `UPDATE projections
SET unknown_type = $4, updated_at = statement_timestamp()
WHERE name = $1 AND transaction_id = $2 AND position = $3 AND state = 'running' AND unknown_type IS DISTINCT FROM $4 AND generation = $5`

// noteTroubleSQL says why a running projection does not go on, while it tries again. $2, $3: its checkpoint, $4: why.
const noteTroubleSQL = `UPDATE projections
SET error = $4, updated_at = statement_timestamp()
WHERE name = $1 AND transaction_id = $2 AND position = $3 AND state = 'running' AND error IS DISTINCT FROM $4`

// divergeSQL stops a projection whose checkpoint is not in the log. $2, $3: the checkpoint, $4: why.
const divergeSQL = `UPDATE projections AS p
SET state = 'diverged', error = $4, failed_transaction_id = NULL, failed_position = NULL, unknown_type = NULL,
    updated_at = statement_timestamp()
WHERE name = $1 AND transaction_id = $2 AND position = $3 AND state <> 'diverged' AND NOT ` + inLogSQL

const retrySQL = `UPDATE projections
SET state = 'running', error = NULL, failed_transaction_id = NULL, failed_position = NULL,
    updated_at = statement_timestamp()
WHERE name = $1 AND state = 'failed'`

// Retry lets a failed projection go on with the event at which it stopped; it takes it up within a second. It
// fails with ErrUnknownProjection or ErrNotFailed.
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
