// Package projections turns events into tables that commands, readers and analysts query.
//
// A projection has a name, SQL, and Apply, which applies batches of events in log order, deterministically, without
// reading the clock. Inline projections (see Inline) run in the transaction of the append, because the next command
// reads them; all others follow asynchronously (see Runner). Both kinds can be rebuilt from the log while they are in
// use (see package rebuild).
package projections

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
)

// Projection derives one read model.
type Projection interface {
	// Name identifies the projection and its checkpoint: lower-case letters and underscores.
	Name() string
	// Generation starts at 1. A change of the code that derives different rows from the same events increases it: then the
	// tables are rebuilt from the log, beside those in use.
	Generation() int
	// Tables names the tables that only this projection writes. Migrations create them in schema public; a rebuild creates
	// them in another schema, so Apply uses their names without a schema.
	Tables() []string
	// Streams returns the stream types that the projection reads; nil for all. A Runner and a rebuild pass no events of
	// other types, and do not stop when those cannot be decoded; an append passes all its events. A change of this list
	// needs a new generation.
	Streams() []string
	// Apply writes the effects of events, given in log order, each once: the transaction also moves the position of the
	// projection, or appends the events. tx is a transaction, or a queue of statements that are sent together: Apply must
	// not use the returned tag, because a queue does not know it yet.
	Apply(ctx context.Context, tx database.Execer, batch []events.Recorded) error
}

// Apply makes a projection queue its statements. It returns a panic of the projection as an error.
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

// All returns the asynchronous projections, one line each.
func All() []Projection {
	return []Projection{
		Posts{},
		Novels{},
		Activity{},
		Changes{},
	}
}

// Optional returns the asynchronous projections that are kept only while they have a checkpoint, which package rebuild
// creates and deletes (see rebuild.SwitchOn).
func Optional() []Projection { return []Projection{Words{}} }

// NeverBuilt is the generation of an optional projection that was switched on and has no rows yet. A rebuild follows,
// as for any other older generation.
const NeverBuilt = 1

// Built returns All and the optional projections that have rows.
func Built(ctx context.Context, db database.DB) ([]Projection, error) {
	built := All()
	for _, p := range Optional() {
		var generation int
		err := db.QueryRow(ctx, `SELECT generation FROM projections WHERE name = $1`, p.Name()).Scan(&generation)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return nil, fmt.Errorf("read the generation of %s: %w", p.Name(), err)
		}
		if generation > NeverBuilt {
			built = append(built, p)
		}
	}
	return built, nil
}

// Find returns the projection with a name, asynchronous or inline. It fails with ErrUnknownProjection.
func Find(name string) (Projection, error) {
	var names []string
	for _, p := range slices.Concat(All(), Optional(), Inline()) {
		if p.Name() == name {
			return p, nil
		}
		names = append(names, p.Name())
	}
	return nil, fmt.Errorf("%w %q: there are %s", ErrUnknownProjection, name, strings.Join(names, ", "))
}

// Inline returns the inline projections.
func Inline() []Projection {
	return []Projection{Titles{}, Threads{}, Integrations{}, Persons{}, AuthorDecisions{}}
}

// IsInline reports whether a projection is inline.
func IsInline(projection Projection) bool {
	return slices.ContainsFunc(Inline(), func(p Projection) bool { return p.Name() == projection.Name() })
}

// QueueInline adds the statements of the inline projections for events to a batch.
func QueueInline(ctx context.Context, batch *pgx.Batch, recorded []events.Recorded) error {
	for _, projection := range Inline() {
		if err := projection.Apply(ctx, queue{batch}, recorded); err != nil {
			return fmt.Errorf("queue projection %s: %w", projection.Name(), err)
		}
	}
	return nil
}

// Append appends events in one transaction, under the lock of the log, with the inline projections, and notifies all
// processes. It is for rare appends; see eventlog.QueueNotification.
func Append(ctx context.Context, db interface {
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}, recorded ...events.Recorded,
) error {
	var batch pgx.Batch
	eventlog.Lock(&batch)
	if err := QueueAppend(ctx, &batch, recorded); err != nil {
		return err
	}
	if err := db.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	return nil
}

// QueueAppend adds to a batch the statements of Append, after that of eventlog.Lock.
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

// queue is a database.Execer that only queues statements in a batch.
type queue struct{ batch *pgx.Batch }

func (q queue) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	q.batch.Queue(sql, args...)
	return pgconn.CommandTag{}, nil
}

// Parameters of statements, one element per row.
type (
	uuidColumn = pgtype.FlatArray[pgtype.UUID]
	timeColumn = pgtype.FlatArray[time.Time]
	intColumn  = pgtype.FlatArray[int32]
)

func pgUUID(id uuid.UUID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }
