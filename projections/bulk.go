package projections

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/internal/database"
)

// Bulk is implemented by a projection most of whose events do nothing but add rows, each event its own. Such rows can
// be written side by side and before there are indexes.
type Bulk interface {
	Projection
	// NewLoader returns a loader that knows of no events.
	NewLoader() Loader
}

// Loader turns events into rows. It is given batch after batch in log order and may use what it has learnt of earlier
// ones, so the rows of a batch are right only in tables that get those of all earlier batches, too. It is used by one
// goroutine at a time.
type Loader interface {
	// Load returns the rows that events add, and the events that do anything else. Those are applied once all
	// rows are written, in log order, which must come to the same as applying every event in log order. A
	// batch may be given again, and so may the beginning of one.
	Load(batch []events.Recorded) (rows []Rows, rest []events.Recorded, err error)
}

// Rows are for one table.
type Rows struct {
	Table   string
	Columns []string
	Values  pgx.CopyFromSource
}

// Load lets a loader turn events into rows, and turns a panic of it into an error.
func Load(loader Loader, batch []events.Recorded) (rows []Rows, rest []events.Recorded, err error) {
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

// CopyIn copies rows into the tables of a schema.
func CopyIn(ctx context.Context, db database.DB, schema string, rows []Rows) error {
	for _, of := range rows {
		if _, err := db.CopyFrom(ctx, pgx.Identifier{schema, of.Table}, of.Columns, of.Values); err != nil {
			return fmt.Errorf("copy into %s: %w", of.Table, err)
		}
	}
	return nil
}
