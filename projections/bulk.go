package projections

import (
	"fmt"

	"github.com/jackc/pgx/v5"

	"novelgate/events"
)

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
