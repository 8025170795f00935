package history

import (
	"github.com/jackc/pgx/v5"

	"novelgate/events/eventlog"
)

// Event is an event as it is stored: its data is not decoded.
type Event struct {
	eventlog.Row
	LogIndex *int64 // place in the ledger; nil until it is sealed

	digest digest // see Cursor
	count  int64
}

// columns are what scan reads, in its order, of an event e; a count follows.
const columns = eventlog.Columns + `,
       (SELECT s.first_log_index + e.position FROM ledger_seals s WHERE s.transaction_id = e.transaction_id), ` + digestSQL

// countedColumns are columns with the count, which may be NULL.
var countedColumns = columns + ", " + countSQL("e.transaction_id", "e.position")

// scan reads an event. It reuses the texts of row, which has the event before it, if any.
func scan(result pgx.CollectableRow, row *eventlog.Row) (Event, error) {
	var e Event
	var sum []byte
	var count *int64
	if err := row.Scan(result, &e.LogIndex, &sum, &count); err != nil {
		return Event{}, err
	}
	if count != nil {
		e.count = *count
	}
	copy(e.digest[:], sum)
	e.Row = row.Clone()
	return e, nil
}

// Correlation is the same for all events of one undertaking: what was recorded, or else the id of the request.
func (e *Event) Correlation() string {
	if e.Metadata.Correlation != "" {
		return e.Metadata.Correlation
	}
	return e.Metadata.RequestID
}
