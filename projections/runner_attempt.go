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
)

// attemptTimeout bounds one transaction: a database that went silent must not hold a projection for ever.
const attemptTimeout = 2 * time.Minute

// rollbackTimeout bounds the end of one that is given up.
const rollbackTimeout = 5 * time.Second

var (
	// errLost means that another replica has the checkpoint.
	errLost = fmt.Errorf("%w: it applies this projection", eventlog.ErrStandby)
	// errMoved means that it has been moved since the events were read: by another replica, or by this one, and they come
	// again.
	errMoved = fmt.Errorf("%w: it has moved the checkpoint", errLost)
	// errGeneration means that the live tables are those of other code.
	errGeneration = fmt.Errorf("%w: the live tables are of another generation", eventlog.ErrBlocked)
	// errStopped means that the projection has failed, or diverged from the log.
	errStopped = fmt.Errorf("%w: the projection has stopped", eventlog.ErrBlocked)
)

// poisonError is an error of applying events that trying again would not cure.
type poisonError struct{ error }

func (p poisonError) Unwrap() error { return p.error }

// part is a part of the log that is to be applied: the events behind start, up to end.
type part struct {
	identity   eventlog.Identity // of the log that it was read from
	start, end events.Position
	rows       []Rows // that were made of events already
	events     []events.Recorded
}

// doubtError is an error of applying events that says nothing about them: something is wrong with the database, or with
// the schema. Trying again helps when that was put right. But it cannot be told from what is wrong with the one event
// that needs what is missing.
type doubtError struct{ error }

func (d doubtError) Unwrap() error { return d.error }

// attempt applies a part and moves the checkpoint over it, in one transaction: both or neither, and only if the log is
// the one that the part was read from, the checkpoint is at its start and of the generation of this code. It costs two
// round trips.
//
// A poisonError blames the events; a doubtError does when nothing else helps. With any other error nothing was applied,
// or the outcome of the commit is unknown; the checkpoint tells.
func attempt(ctx context.Context, pool *pgxpool.Pool, projection Projection, p part) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
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
	for _, of := range p.rows {
		if _, err = conn.CopyFrom(ctx, pgx.Identifier{"public", of.Table}, of.Columns, of.Values); err != nil {
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
		return doubtError{err}
	}
	return nil
}

// queueWrites queues what applies events and moves the checkpoint to end, up to the commit.
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

// release gives a connection back. One that is still in a transaction is not fit for the pool; Release closes it if it
// cannot be ended.
func release(ctx context.Context, conn *pgxpool.Conn) {
	if conn.Conn().PgConn().TxStatus() != 'I' && !conn.Conn().IsClosed() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_, _ = conn.Exec(ctx, "rollback")
	}
	conn.Release()
}

// lockAt holds the checkpoint, which must be at start in this log, until the end of the transaction. Statements may go
// ahead of that in the same round trip.
func lockAt(
	ctx context.Context, conn *pgxpool.Conn, lockSQL string, projection Projection, identity eventlog.Identity,
	start events.Position, ahead ...string,
) error {
	var batch pgx.Batch
	for _, statement := range ahead {
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
		return errLost
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
