// Package projections turns events into tables that commands, readers and analysts query.
//
// A projection is a name, its SQL, and Apply: batches of events in log order, deterministic, without reading the
// clock. The inline ones (see Inline) run in the transaction that appends, because the next command reads them; all
// others follow asynchronously (see Runner). Both kinds can be rebuilt from the log alone.
package projections

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"

	"novelgate/events"
)

// Execer is what a projection writes through: a transaction, or a queue of statements that are sent together.
// Statements must not depend on the returned tag: a queue does not know it yet.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Projection derives one read model.
type Projection interface {
	// Name identifies the projection and its checkpoint.
	Name() string
	// Apply writes what the events, given in log order, mean for the read model. Applying a batch a second time
	// changes nothing.
	Apply(ctx context.Context, tx Execer, batch []events.Recorded) error
}
