package projections

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"novelgate/events"
)

// States of a projection.
const (
	Running = "running"
	Failed  = "failed" // stopped before an event that it cannot apply, until Retry
)

// ErrUnknownProjection is returned for a name that has no checkpoint.
var ErrUnknownProjection = errors.New("unknown projection")

// checkpoint is the row of a projection: what it has applied, and whether it may go on.
type checkpoint struct {
	position events.Position
	state    string
}

// conn is a connection, a pool or a transaction.
type conn interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

const createCheckpointSQL = `INSERT INTO projections (name, generation, transaction_id, position, state, updated_at)
VALUES ($1, 1, '0', 0, 'running', statement_timestamp()) ON CONFLICT (name) DO NOTHING`

const readCheckpointSQL = `SELECT transaction_id, position, state FROM projections WHERE name = $1`

// loadCheckpoint returns the checkpoint of a projection, which is at the beginning of the log if there was none.
func loadCheckpoint(ctx context.Context, db conn, name string) (checkpoint, error) {
	c, err := scanCheckpoint(db.QueryRow(ctx, readCheckpointSQL, name))
	if !errors.Is(err, pgx.ErrNoRows) {
		return c, err
	}
	if _, err := db.Exec(ctx, createCheckpointSQL, name); err != nil {
		return checkpoint{}, fmt.Errorf("create checkpoint: %w", err)
	}
	return scanCheckpoint(db.QueryRow(ctx, readCheckpointSQL, name))
}

func scanCheckpoint(row pgx.Row) (checkpoint, error) {
	var c checkpoint
	if err := row.Scan(&c.position.TransactionID, &c.position.Ordinal, &c.state); err != nil {
		return checkpoint{}, fmt.Errorf("read checkpoint: %w", err)
	}
	return c, nil
}

// lockCheckpointSQL returns nothing when somebody else has the lock. What the transaction does can be done again from the log,
// so its commit need not wait for the disk.
const lockCheckpointSQL = `SELECT transaction_id, position, state, set_config('synchronous_commit', 'off', true)
FROM projections WHERE name = $1 FOR NO KEY UPDATE SKIP LOCKED`

const saveCheckpointSQL = `UPDATE projections
SET transaction_id = $2, position = $3, unknown_type = NULL, updated_at = statement_timestamp() WHERE name = $1`

// failSQL stops a projection. $2, $3: its checkpoint, $4, $5: the event that it cannot apply, $6: why.
const failSQL = `UPDATE projections
SET state = 'failed', failed_transaction_id = $4, failed_position = $5, error = $6, unknown_type = NULL, updated_at = statement_timestamp()
WHERE name = $1 AND transaction_id = $2 AND position = $3 AND state = 'running'`

// noteUnknownSQL says what a running projection waits for. $2, $3: its checkpoint, $4: event type.
const noteUnknownSQL = `UPDATE projections
SET unknown_type = $4, updated_at = statement_timestamp()
WHERE name = $1 AND transaction_id = $2 AND position = $3 AND state = 'running' AND unknown_type IS DISTINCT FROM $4`

const retrySQL = `UPDATE projections
SET state = 'running', error = NULL, failed_transaction_id = NULL, failed_position = NULL, updated_at = statement_timestamp()
WHERE name = $1 AND state = 'failed'`

// Retry lets a failed projection go on with the event at which it stopped; it takes it up within a second. A
// projection that runs is left as it is. It fails with ErrUnknownProjection.
func Retry(ctx context.Context, db conn, name string) error {
	tag, err := db.Exec(ctx, retrySQL, name)
	if err != nil {
		return fmt.Errorf("retry projection %s: %w", name, err)
	}
	if tag.RowsAffected() > 0 {
		return nil
	}
	var exists bool
	if err := db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM projections WHERE name = $1)`, name).Scan(&exists); err != nil {
		return fmt.Errorf("look for projection %s: %w", name, err)
	}
	if !exists {
		return fmt.Errorf("retry projection %s: %w", name, ErrUnknownProjection)
	}
	return nil
}

// errorText makes an error fit into a column.
func errorText(err error) string {
	const limit = 4000
	text := strings.ReplaceAll(strings.ToValidUTF8(err.Error(), "\uFFFD"), "\x00", "\uFFFD")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return text
}
