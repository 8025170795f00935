// Package projections turns events into tables that commands, readers and analysts query.
//
// A projection is a name, its SQL, and Apply: batches of events in log order, deterministic, without reading the clock.
// The inline ones (see Inline) run in the transaction that appends, because the next command reads them; all others
// follow asynchronously (see Runner). Both kinds can be rebuilt from the log alone, while they are in use (see package
// rebuild).
package projections

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/internal/database"
)

// Projection derives one read model.
type Projection interface {
	// Name identifies the projection and its checkpoint: lower-case letters and underscores.
	Name() string
	// Generation is 1, and one more after each change of the code by which the same events would lead to other rows: the
	// tables are then built anew from the log, beside those in use.
	Generation() int
	// Tables names the tables that this projection alone writes. Migrations create them in schema public; while they are
	// built anew they lie in another one, so Apply names them without a schema.
	Tables() []string
	// Apply writes what the events, given in log order, mean for the read model. Applying a batch a second time
	// changes nothing. One that begins before what was applied and ends behind it may be refused; the runner makes none.
	// tx is a transaction, or a queue of statements that are sent together: statements must not depend on the returned
	// tag, which a queue does not know yet.
	Apply(ctx context.Context, tx database.Execer, batch []events.Recorded) error
}

// Selective is implemented by a projection that looks at some kinds of stream only. It is not given events of others,
// and does not stop when those cannot be read.
type Selective interface {
	// Streams returns the kinds of stream, as in stream_type. A change of it is a change of generation.
	Streams() []string
}

// Streams returns the kinds of stream that a projection looks at, nil for all.
func Streams(p Projection) []string {
	if selective, ok := p.(Selective); ok {
		return selective.Streams()
	}
	return nil
}

// Apply lets a projection queue its statements, and turns a panic of it into an error.
func Apply(ctx context.Context, projection Projection, writes *pgx.Batch, batch []events.Recorded) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	if err := projection.Apply(ctx, queue{writes}, batch); err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	return nil
}
