package rebuild

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/eventlog"
	"novelgate/projections"
)

// ErrNothingToDiscard means that no rebuild of the projection was begun and not finished.
var ErrNothingToDiscard = errors.New("there is no unfinished rebuild of this projection")

// Discarded says what was given up.
type Discarded struct {
	Name       string `json:"name"`
	Generation int    `json:"generation"` // of the code that built
	Phase      string `json:"phase"`      // in which it was left
	EventsDone int    `json:"eventsDone"` // how many it had read
}

// A process that was killed holds no advisory lock any more, but the server may still be at its last statement.
const discardSettings = `SET LOCAL lock_timeout = '5s'`

// Discard gives an unfinished rebuild of a projection up, whatever code has begun it: its tables and its record are
// gone, and the next Run begins anew. The live tables stay as they are. It fails with ErrUnderWay while a process is at
// it, and with ErrNothingToDiscard.
func Discard(ctx context.Context, pool *pgxpool.Pool, projection projections.Projection) (Discarded, error) {
	r, err := newRebuild(ctx, Config{Pool: pool, Projection: projection, Workers: 1})
	if err != nil {
		return Discarded{}, err
	}
	defer r.pool.Close()
	lock, err := r.lock(ctx)
	if err != nil {
		return Discarded{}, err
	}
	defer r.unlock(context.WithoutCancel(ctx), lock)

	found, err := r.readRecord(ctx)
	if err == nil && (found == nil || found.phase == Finished) {
		err = ErrNothingToDiscard
	}
	if err == nil {
		r.record = *found
		err = pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error { return r.discard(ctx, tx) })
	}
	if eventlog.IsConflict(err) {
		err = fmt.Errorf("%w: %w", ErrUnderWay, err)
	}
	if err != nil {
		return Discarded{}, fmt.Errorf("discard rebuild of projection %s: %w", projection.Name(), err)
	}
	return Discarded{Name: projection.Name(), Generation: found.generation, Phase: found.phase, EventsDone: found.done},
		nil
}

func (r *rebuild) discard(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, discardSettings); err != nil {
		return fmt.Errorf("set lock_timeout: %w", err)
	}
	// The tables first: whoever still writes to them locks them before the record.
	if _, err := tx.Exec(ctx, `DROP SCHEMA IF EXISTS `+pgx.Identifier{r.schema()}.Sanitize()+` CASCADE`); err != nil {
		return fmt.Errorf("drop schema %s: %w", r.schema(), err)
	}
	if _, err := tx.Exec(ctx, forgetSQL, r.Projection.Name()); err != nil {
		return fmt.Errorf("forget the rebuild: %w", err)
	}
	return nil
}
