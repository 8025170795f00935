package projections

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
)

// attemptTimeout bounds one transaction: a database that went silent must not hold a projection for ever.
const attemptTimeout = 2 * time.Minute

// rollbackTimeout bounds the end of one that is given up.
const rollbackTimeout = 5 * time.Second

var (
	// errLost means that another replica has the checkpoint or has moved it.
	errLost = errors.New("another replica applies this projection")
	// errGeneration means that the live tables are those of other code.
	errGeneration = errors.New("the live tables are of another generation")
	// errStopped means that the projection has failed before.
	errStopped = errors.New("projection has failed")
)

// poisonError is an error of applying events that trying again would not cure.
type poisonError struct{ error }

func (p poisonError) Unwrap() error { return p.error }

// attempt applies events and moves the checkpoint from start to end, in one transaction: both or neither, and only
// if the checkpoint is at start and of the generation of this code. It costs two round trips.
//
// A poisonError blames the events. With any other error nothing was applied, or the outcome of the commit is
// unknown; the checkpoint tells.
func attempt(ctx context.Context, pool *pgxpool.Pool, projection Projection, start, end events.Position, batch []events.Recorded) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	// Before the transaction, to keep it short.
	writes, err := queueWrites(ctx, projection, batch, end)
	if err != nil {
		return poisonError{err}
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("acquire connection: %w", err)
	}
	defer release(ctx, conn)
	if err := lockAt(ctx, conn, lockIdleCheckpointSQL, projection, start, "begin"); err != nil {
		return err
	}
	if err := conn.SendBatch(ctx, writes).Close(); err != nil {
		err = fmt.Errorf("apply events after %s: %w", start, err)
		if transient(err, conn.Conn()) || ctx.Err() != nil {
			return err
		}
		return poisonError{err}
	}
	return nil
}

// queueWrites queues what applies events and moves the checkpoint to end, up to the commit.
func queueWrites(ctx context.Context, projection Projection, batch []events.Recorded, end events.Position) (*pgx.Batch, error) {
	var writes pgx.Batch
	if err := Apply(ctx, projection, &writes, batch); err != nil {
		return nil, err
	}
	writes.Queue(saveCheckpointSQL, projection.Name(), end.TransactionID, end.Ordinal)
	writes.Queue("commit")
	return &writes, nil
}

// release gives a connection back. One that is still in a transaction is not fit for the pool; Release closes it if it cannot be ended.
func release(ctx context.Context, conn *pgxpool.Conn) {
	if conn.Conn().PgConn().TxStatus() != 'I' && !conn.Conn().IsClosed() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_, _ = conn.Exec(ctx, "rollback")
	}
	conn.Release()
}

// lockAt holds the checkpoint, which must be at start, until the end of the transaction. Statements may go ahead of that in the same round trip.
func lockAt(ctx context.Context, conn *pgxpool.Conn, lockSQL string, projection Projection, start events.Position, ahead ...string) error {
	var batch pgx.Batch
	for _, statement := range ahead {
		batch.Queue(statement)
	}
	found := checkpoint{}
	batch.Queue(lockSQL, projection.Name()).QueryRow(func(row pgx.Row) error {
		var setting string
		return row.Scan(&found.generation, &found.position.TransactionID, &found.position.Ordinal, &found.state, &setting)
	})
	err := conn.SendBatch(ctx, &batch).Close()
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return errLost
	case err != nil:
		return fmt.Errorf("lock checkpoint: %w", err)
	case found.generation != projection.Generation():
		return errGeneration
	case found.state != Running:
		return errStopped
	case found.position != start:
		return errLost
	}
	return nil
}

// uniqueViolation is no conflict here: a projection is the only writer of its tables.
const uniqueViolation = "23505"

// transient reports whether trying the same again may help.
func transient(err error, conn *pgx.Conn) bool {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code != uniqueViolation && (eventlog.IsUnavailable(err) || eventlog.IsConflict(err))
	}
	// Not an answer of the database: either the connection broke, or an argument could not be encoded.
	return conn.IsClosed()
}
