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
	return write(ctx, pool, projection, start, end, nil, batch)
}

// write copies rows in, applies events, and moves the checkpoint.
func write(ctx context.Context, pool *pgxpool.Pool, projection Projection, start, end events.Position, rows []Rows, batch []events.Recorded) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	// Before the transaction, to keep it short.
	var writes pgx.Batch
	if err := Apply(ctx, projection, &writes, batch); err != nil {
		return poisonError{err}
	}
	writes.Queue(saveCheckpointSQL, projection.Name(), end.TransactionID, end.Ordinal)
	writes.Queue("commit")

	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("acquire connection: %w", err)
	}
	defer func() {
		// A connection that is still in a transaction is not fit for the pool; Release closes it if this fails.
		if conn.Conn().PgConn().TxStatus() != 'I' && !conn.Conn().IsClosed() {
			_, _ = conn.Exec(ctx, "rollback")
		}
		conn.Release()
	}()
	if err := beginAt(ctx, conn, projection, start); err != nil {
		return err
	}
	err = CopyIn(ctx, conn, "public", rows)
	if err == nil {
		err = conn.SendBatch(ctx, &writes).Close()
	}
	if err != nil {
		err = fmt.Errorf("apply events after %s: %w", start, err)
		if transient(err, conn.Conn()) || ctx.Err() != nil {
			return err
		}
		return poisonError{err}
	}
	return nil
}

// beginAt starts a transaction that holds the checkpoint, which must be at start.
func beginAt(ctx context.Context, conn *pgxpool.Conn, projection Projection, start events.Position) error {
	var begin pgx.Batch
	begin.Queue("begin")
	found := checkpoint{}
	begin.Queue(lockCheckpointSQL, projection.Name()).QueryRow(func(row pgx.Row) error {
		var setting string
		return row.Scan(&found.generation, &found.position.TransactionID, &found.position.Ordinal, &found.state, &setting)
	})
	err := conn.SendBatch(ctx, &begin).Close()
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
