package rebuild

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"github.com/jackc/pgx/v5"

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
func (r *rebuild) blame(
	ctx context.Context, batch []events.Recorded, cause error, try func(pgx.Tx, []events.Recorded) error,
) error {
	if ctx.Err() != nil || errors.Is(cause, ErrTakenOver) || errors.Is(cause, errSkippedMeanwhile) ||
		!eventlog.BlamesData(cause) {
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
		case eventlog.BlamesData(err):
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
