package bundle

import (
	"context"
	"fmt"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
)

// rowsSQL reads a range of the log. $1, $2: position to start with, $3, $4: position to stop in front of.
const rowsSQL = `SELECT ` + eventlog.Columns + `
FROM events
WHERE (transaction_id, position) >= ($1, $2) AND (transaction_id, position) < ($3, $4)
ORDER BY transaction_id, position`

// ReadEvents reads the events that are stored in the places of count log indexes, from first on, up to the last one
// below size: usually as many, fewer when some were deleted, more when some were put in between, in front of the first
// one of the next chunk. It is two statements, and so two short transactions. It fails with a SealError where a place
// cannot be told.
func ReadEvents(ctx context.Context, db database.Querier, first int64, count int, size int64) ([]Event, error) {
	list := make([]Event, 0, count)
	err := eachEvent(ctx, db, first, count, size, func(e *Event) error {
		list = append(list, Event{Row: e.Clone(), LogIndex: e.LogIndex})
		return nil
	})
	return list, err
}

// eachEvent calls do with each of these events, whose bytes are gone when it returns.
func eachEvent(
	ctx context.Context, db database.Querier, first int64, count int, size int64, do func(*Event) error,
) error {
	if count == 0 {
		return nil
	}
	end := first + int64(count)
	sealed, err := readSeals(ctx, db, first, min(end, size-1))
	if err != nil {
		return err
	}
	var from events.Position // what stands in front of the first event belongs to the first chunk
	if first > 0 {
		if from, err = sealed.locate(first); err != nil {
			return err
		}
	}
	until, err := sealed.locate(min(end, size-1))
	if err != nil {
		return err
	}
	if end == size {
		until.Ordinal++ // behind the last one
	}
	var e Event
	at := 0
	for row, err := range eventlog.Rows(ctx, db, rowsSQL, from.TransactionID, from.Ordinal, until.TransactionID,
		until.Ordinal) {
		if err != nil {
			return fmt.Errorf("read events from log index %d: %w", first, err)
		}
		e.Row, e.LogIndex = *row, sealed.index(row.Position, &at)
		if err := do(&e); err != nil {
			return err
		}
	}
	return nil
}
