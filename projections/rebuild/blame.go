package rebuild

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sort"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/projections"
)

// PoisonError says which event the projection cannot apply.
type PoisonError struct {
	Position events.Position
	Delivery projections.Delivery
	err      error
}

func (e *PoisonError) Error() string {
	return fmt.Sprintf("event %s (id %q of %s) cannot be applied: %v", e.Position, e.Delivery.ID, e.Delivery.Source, e.err)
}

func (e *PoisonError) Unwrap() error { return e.err }

var errTried = errors.New("rolled back, as planned")

// blame finds the first event because of which a batch cannot be written. Errors that are no event's fault are returned
// as they are.
func (r *rebuild) blame(ctx context.Context, batch []events.Recorded, cause error, try func(pgx.Tx, []events.Recorded) error) error {
	if ctx.Err() != nil || errors.Is(cause, ErrTakenOver) || errors.Is(cause, errSkippedMeanwhile) || !mayBePoison(cause) {
		return cause
	}
	var other error
	fails := func(n int) bool {
		err := pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
			if err := r.writeTo(ctx, tx); err != nil {
				return err
			}
			if err := try(tx, batch[:n]); err != nil {
				return err
			}
			return errTried
		})
		switch {
		case errors.Is(err, errTried):
			return false
		case mayBePoison(err):
			cause = err
		default:
			other = errors.Join(other, err)
		}
		return true
	}
	// The shortest beginning that fails ends with the culprit.
	n := sort.Search(len(batch), func(i int) bool { return fails(i + 1) })
	if other != nil || n == len(batch) {
		return errors.Join(cause, other) // it went away by itself: no event's fault
	}
	return &PoisonError{Position: batch[n].Position, Delivery: projections.DeliveryOf(&batch[n]), err: cause}
}

// mayBePoison reports whether trying the same again would not help.
func mayBePoison(err error) bool {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code == uniqueViolation || !eventlog.IsUnavailable(err) && !eventlog.IsConflict(err)
	}
	// Not an answer of the database: the connection broke, or a value could not be encoded or computed.
	var connect *pgconn.ConnectError
	var network *net.OpError
	broken := errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	return !broken && !pgconn.SafeToRetry(err) && !pgconn.Timeout(err)
}

// uniqueViolation is no conflict here: nobody else writes the new tables.
const uniqueViolation = "23505"
