// Package projections turns events into tables that commands, readers and analysts query.
//
// A projection is a name, its SQL, and Apply: batches of events in log order, deterministic, without reading the
// clock. The inline ones (see Inline) run in the transaction that appends, because the next
// command reads them; all others follow asynchronously (see Runner). Both kinds can be rebuilt from the log alone, while
// they are in use (see package rebuild).
package projections

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
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
	Apply(ctx context.Context, tx Execer, batch []events.Recorded) error
}

// Selective is implemented by a projection that looks at some kinds of stream only. It is not given events of others, and
// does not stop when those cannot be read.
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

// Bulk is implemented by a projection most of whose events do nothing but add rows, each event its own. Such events can be
// loaded in any order, by several workers and before there are indexes.
type Bulk interface {
	Projection
	// Load returns the rows that events add, and the events that do anything else. Those are applied once all
	// rows are loaded, in log order, which must come to the same as applying every event in log order.
	Load(batch []events.Recorded) (rows []Rows, rest []events.Recorded, err error)
}

// Rows are for one table.
type Rows struct {
	Table   string
	Columns []string
	Values  pgx.CopyFromSource
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

// Load lets a projection turn events into rows, and turns a panic of it into an error.
func Load(projection Bulk, batch []events.Recorded) (rows []Rows, rest []events.Recorded, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	if rows, rest, err = projection.Load(batch); err != nil {
		return nil, nil, fmt.Errorf("load: %w", err)
	}
	return rows, rest, nil
}

// Copier is a connection or a transaction that rows are copied through.
type Copier interface {
	CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error)
}

// CopyIn copies rows into the tables of a schema.
func CopyIn(ctx context.Context, db Copier, schema string, rows []Rows) error {
	for _, of := range rows {
		if _, err := db.CopyFrom(ctx, pgx.Identifier{schema, of.Table}, of.Columns, of.Values); err != nil {
			return fmt.Errorf("copy into %s: %w", of.Table, err)
		}
	}
	return nil
}
