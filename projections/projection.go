// Package projections turns events into tables that commands, readers and analysts query.
//
// A projection is a name, its SQL, and Apply: batches of events in log order, deterministic, without reading the clock.
// The inline ones (see Inline) run in the transaction that appends, because the next command reads them; all others
// follow asynchronously (see Runner). Both kinds can be rebuilt from the log, while they are in use (see package
// rebuild).
package projections

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
)

// Projection derives one read model.
type Projection interface {
	// Name identifies the projection and its checkpoint: lower-case letters and underscores.
	Name() string
	// Generation is 1, and one more after each change of the code by which the same events would lead to other rows: the
	// tables are then rebuilt from the log, beside those in use.
	Generation() int
	// Tables names the tables that only this projection writes. Migrations create them in schema public; a rebuild creates
	// them in another schema, so Apply names them without one.
	Tables() []string
	// Streams returns the kinds of stream, as in stream_type, that the projection looks at; nil for all. It is not given
	// events of others, and does not stop when those cannot be read. A change of it is a change of generation.
	Streams() []string
	// Apply writes what the events, given in log order, mean for the read model. Applying a batch a second time
	// changes nothing. One that begins before what was applied and ends after it may be refused; the runner makes none.
	// tx is a transaction, or a queue of statements that are sent together: statements must not depend on the returned
	// tag, which a queue does not know yet.
	Apply(ctx context.Context, tx database.Execer, batch []events.Recorded) error
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

// All returns the projections that follow the log asynchronously, one line each.
func All() []Projection {
	return []Projection{
		Posts{},
		Authors{},
		Novels{},
		Activity{},
		Changes{},
	}
}

// Find returns the projection of a name, and whether it is written in the transaction that appends. It fails with
// ErrUnknownProjection.
func Find(name string) (p Projection, inline bool, err error) {
	for _, p := range All() {
		if p.Name() == name {
			return p, false, nil
		}
	}
	for _, p := range Inline() {
		if p.Name() == name {
			return p, true, nil
		}
	}
	var names []string
	for _, p := range append(All(), Inline()...) {
		names = append(names, p.Name())
	}
	return nil, false, fmt.Errorf("%w %q: there are %s", ErrUnknownProjection, name, strings.Join(names, ", "))
}

// Inline returns the projections that are written in the transaction that appends.
func Inline() []Projection {
	return []Projection{Titles{}, Threads{}, Integrations{}, Persons{}, AuthorDecisions{}}
}

// QueueInline adds to a batch the statements with which the inline projections follow the events.
func QueueInline(ctx context.Context, batch *pgx.Batch, recorded []events.Recorded) error {
	for _, projection := range Inline() {
		if err := projection.Apply(ctx, queue{batch}, recorded); err != nil {
			return fmt.Errorf("queue projection %s: %w", projection.Name(), err)
		}
	}
	return nil
}

// Append appends events in one transaction, with the inline projections, and notifies all processes. It is for programs
// that append now and then; a service runs eventlog.Wake.Notify.
func Append(ctx context.Context, db interface {
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}, recorded ...events.Recorded,
) error {
	var batch pgx.Batch
	if err := QueueAppend(ctx, &batch, recorded); err != nil {
		return err
	}
	if err := db.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	return nil
}

// QueueAppend adds to a batch the statements of Append.
func QueueAppend(ctx context.Context, batch *pgx.Batch, recorded []events.Recorded) error {
	if err := eventlog.Queue(batch, recorded); err != nil {
		return err
	}
	if err := QueueInline(ctx, batch, recorded); err != nil {
		return err
	}
	eventlog.QueueNotification(batch)
	return nil
}

// queue is a database.Execer that sends nothing before the batch is sent.
type queue struct{ batch *pgx.Batch }

func (q queue) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	q.batch.Queue(sql, args...)
	return pgconn.CommandTag{}, nil
}

// Bulk is implemented by a projection most of whose events do nothing but add rows, each event its own. A catch-up
// copies such rows in.
type Bulk interface {
	Projection
	// NewLoader returns a loader that knows of no events.
	NewLoader() Loader
}

// Loader turns events into rows. It is given batch after batch in log order and may use what it has learnt of earlier
// ones, so the rows of a batch are right only in tables that get those of all earlier batches, too. It is used by one
// goroutine at a time.
type Loader interface {
	// Load returns the rows that events add, and the events that do anything else. Those are applied once the rows are
	// written, at once or when the rows of later batches are there, too, but in log order. Both must come to the same as
	// applying every event in log order.
	Load(batch []events.Recorded) (rows []Rows, rest []events.Recorded, err error)
}

// Rows are for one table.
type Rows struct {
	Table   string
	Columns []string
	Values  pgx.CopyFromSource
}

// loadRows lets a loader turn events into rows, and turns a panic of it into an error.
func loadRows(loader Loader, batch []events.Recorded) (rows []Rows, rest []events.Recorded, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	if rows, rest, err = loader.Load(batch); err != nil {
		return nil, nil, fmt.Errorf("load: %w", err)
	}
	return rows, rest, nil
}
